#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Restrictions of the gateway: its user, its sandbox, and its restart after a crash.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
config() {
	gateway_config <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
$1
EOF
}
echoes() { cl curl -sf --max-time 5 -o /dev/null "http://$V4:8080/echo"; }

# --- the account ---

refused_in_one_line() {
	local text=$1
	shift
	! timeout 20 "$@" >"$D/said" 2>&1 && cat "$D/said" && [ "$(wc -l <"$D/said")" -eq 1 ] && grep -q "$text" "$D/said"
}
config ""
sed -i '/^user/d' "$D/gw.conf"
# Accounts of a mount namespace, so that this host's stay as they are.
grep -v ^sluice: /etc/passwd >"$D/passwd"
grep -v ^sluice: /etc/group >"$D/group"
cat >"$D/with_accounts" <<EOF
#!/bin/sh
exec nsenter --net=/run/netns/$G unshare -m sh -c 'mount --bind $D/passwd /etc/passwd && mount --bind $D/group /etc/group && exec "\$@"' sh "\$@"
EOF
chmod 755 "$D/with_accounts"
for command in check run; do
	check "$command without the account sluice says what to do" refused_in_one_line 'no account "sluice".*useradd --system' "$D/with_accounts" "$SLUICE" $command -c "$D/gw.conf"
done
echo "sluice:x:4321:4322::/:/usr/sbin/nologin" >>"$D/passwd"
echo "sluice:x:4322:" >>"$D/group"
: >"$D/gw.log"
"$D/with_accounts" "$SLUICE" run -c "$D/gw.conf" >>"$D/gw.log" 2>&1 </dev/null &
gateway_pid=$!
within 30 eval 'gateway_child >/dev/null'
within 30 eval 'grep -q "^Uid:\s*4321\s" /proc/$(gateway_child)/status'
check "with it, that is what the gateway runs as" eval 'grep -E "^(Uid|Gid|Groups)" /proc/$(gateway_child)/status | tr "\n\t" "  " | grep -q "Uid: 4321 4321 4321 4321 Gid: 4322 4322 4322 4322 Groups: 4322 "'
check "whom a backend of strangers does not serve, which is said" within 30 grep -q "backend echo/a: .*serves root, its own user and group" "$D/gw.log"
end_process "$gateway_pid" 20
gateway_pid=
config 'user = "no-such-account"'
check "an account that is not there" refused_in_one_line 'gw.conf:5: found user = "no-such-account"' nsenter --net="/run/netns/$G" "$SLUICE" check -c "$D/gw.conf"

config ""
# A shell's soft limit is too few for many backends.
files=$(ulimit -Sn)
ulimit -Sn 1024
gateway_start
ulimit -Sn "$files"
child=$(gateway_child)
check "it may open as many files as it is allowed to" eval 'awk "/^Max open files/ { print; exit \$4 <= 1024 || \$4 != \$5 }" /proc/$child/limits'
field() { awk -v k="$2:" '$1 == k { print $2 }' "/proc/$1/status"; }
check "the gateway is its account's" test "$(field "$child" Uid) $(field "$child" Gid)" = "$(id -u nobody) $(id -g nobody)"
check "its supervisor is not" test "$(field "$gateway_pid" Uid)" = 0
[ "${SL_SANITIZED:-}" = 1 ] || check "it cannot be dumped" eval '[ "$(stat -c %u /proc/$child/maps)" = 0 ] && grep -qE "^Max core file size +0 +0 " /proc/$child/limits'

# --- the walls ---

[ "${SL_SANITIZED:-}" = 1 ] || check "the program is built hardened" "$here/../support/hardening.sh" "$SLUICE"

if [ "${SL_SANITIZED:-}" != 1 ]; then
	all_filtered() {
		local t bad=0
		for t in /proc/"$child"/task/*; do
			awk -v t="$(cat "$t/comm")" '$1 == "Seccomp:" { s = $2 } $1 == "Seccomp_filters:" { n = $2 } END { print t, s, n; exit s != 2 }' "$t/status" || bad=1
		done
		return $bad
	}
	check "every thread has a filter of system calls" all_filtered
	within 30 echoes # and so its ring is there
	# left_out NAME: all mappings of that name, or without one some large mapping that is no ring.
	left_out() {
		awk -v name="$1" '
			/^[0-9a-f]+-[0-9a-f]+ / { named = name != "" && $6 ~ name; ring = $6 ~ /memfd:sluice-rpc/ }
			/^Size:/ { large = name == "" && !ring && $2 >= 4096 }
			/^VmFlags:/ && / dd( |$)/ && (named || large) { found = 1 }
			/^VmFlags:/ && !/ dd( |$)/ && named { missed = 1 }
			END { exit !found || missed }' "/proc/$child/smaps"
	}
	check "frames are left out of dumps" left_out ""
	check "and so is the ring that it shares with a backend" left_out memfd:sluice-rpc
	# Another file in the folder of the configuration can be read, which an editor may put in its place; others cannot.
	sed 's/10s/9s/' "$D/gw.conf" >"$D/next.conf"
	mv "$D/next.conf" "$D/gw.conf"
	kill -HUP "$gateway_pid"
	check "a configuration that was replaced is read" within 30 grep -q "reload: in force: pool echo" "$D/gw.log"
	outside=$(mktemp /tmp/sl-outside-XXXXXX)
	chmod 644 "$outside"
	ln -sf "$outside" "$D/gw.conf"
	kill -HUP "$gateway_pid"
	check "what lies elsewhere is not, though its account might" within 30 grep -q "reload: nothing changed: .*Permission denied" "$D/gw.log"
	rm -f "$outside" "$D/gw.conf"
	config ""
fi
chmod 600 "$D/gw.conf"
kill -HUP "$gateway_pid"
check "a configuration that its account cannot read is said to be" within 30 grep -q "reload: nothing changed: .*gw.conf.*Permission denied" "$D/gw.log"
check "and it serves on" echoes
gateway_end
gateway_start
check "at the start it is warned of" grep -q "user nobody cannot read $D/gw.conf (Permission denied): a reload will be refused" "$D/gw.log"
gateway_end
chmod 644 "$D/gw.conf"

# --- keys, and the other processes ---

# tree PID: that process and all below it.
tree() {
	local p
	echo "$1"
	for p in $(pgrep -P "$1"); do tree "$p"; done
}
for name in a client; do
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=$name.test -keyout "$D/$name.key" -out "$D/$name.pem" 2>/dev/null
done
printf '%s' "token-$RANDOM$RANDOM$RANDOM-of-an-operator" >"$D/token"
head -c 32 /dev/urandom | base64 >"$D/psk"
chgrp "$(id -g nobody)" "$D/a.key" "$D/client.key" "$D/psk"
chmod 640 "$D/a.key" "$D/client.key" "$D/psk"
chmod 600 "$D/token"
# Prints those processes that have a secret in memory, with its name.
cat >"$D/holders.py" <<'EOF'
import base64, re, subprocess, sys
D, pids = sys.argv[1], sys.argv[2:]
psk = open(D + "/psk", "rb").read().strip()
secrets = {"token": open(D + "/token", "rb").read(), "shared key": psk, "decoded shared key": base64.b64decode(psk)}
for name, file in ("key", D + "/a.key"), ("client key", D + "/client.key"):
    text = subprocess.run(["openssl", "ec", "-in", file, "-text", "-noout"], capture_output=True, text=True).stdout
    key = bytes.fromhex(re.sub(r"[\s:]", "", re.search(r"priv:\n((?:\s+[0-9a-f:]+\n)+)", text)[1]))[-32:]
    secrets |= {name: key, "reversed " + name: key[::-1], "file of the " + name: open(file, "rb").read().split(b"\n")[1]}
for pid in pids:
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            where, access = line.split()[:2]
            low, high = (int(x, 16) for x in where.split("-"))
            if access[:2] != "rw" or high - low > 1 << 29:
                continue
            try:
                mem.seek(low)
                block = mem.read(high - low)
            except (OSError, ValueError, OverflowError):
                continue
            found |= {name for name, secret in secrets.items() if secret in block}
    if found:
        print(open(f"/proc/{pid}/comm").read().strip(), *sorted(found), sep=", ")
EOF
config "listener tls { address = \"$V4\" port = 8443 tls { certificate = {\"$D/a.pem\"} key = {\"$D/a.key\"} } }
admin { token_file = \"$D/token\" }
pool far { backend f { endpoint = \"tcp://127.0.0.1:9\" key_file = \"$D/psk\" } }
pool app { backend s { endpoint = \"https://127.0.0.1:9001\" } tls { verify = no certificate = \"$D/client.pem\" key = \"$D/client.key\" } }
route \"/far\" { pool = far }
route \"/\" { pool = app }"
gateway_spawn
within 30 eval '[ "$(tree "$gateway_pid" | wc -l)" -eq 5 ]'
handshaken() { cl curl -sk --max-time 5 -o /dev/null "https://$V4:8443/echo"; }
check "TLS with that key" within 30 handshaken
mapfile -t pids < <(tree "$gateway_pid")
holders() {
	python3 "$D/holders.py" "$D" "${pids[@]}" >"$D/holders"
	cat "$D/holders"
	[ "$(wc -l <"$D/holders")" -eq 2 ] && grep '^sluice, .*key.*token' "$D/holders" | grep -qv client &&
		grep -Eq '^agent-0(, ((reversed|file of the) )?client key)+$' "$D/holders"
}
check "there are supervisor, gateway, guard, zygote and agent" test "${#pids[@]}" -eq 5
check "of them the gateway has its keys in memory, the agent the key for its server, and no other process any" holders
if [ "${SL_SANITIZED:-}" != 1 ]; then
	all_processes_filtered() {
		local p bad=0
		for p in "${pids[@]:1}"; do
			awk '$1 == "Name:" { n = $2 } $1 == "Seccomp:" { s = $2 } END { print n, s; exit s != 2 }' "/proc/$p/status" || bad=1
		done
		return $bad
	}
	check "all processes but the supervisor have a filter of system calls" all_processes_filtered
fi
end_process "$gateway_pid" 20
gateway_pid=
config ""

# The capabilities that the systemd unit leaves to root are enough.
unit=$here/../../user/service/sluice.service
kept=$(sed -n 's/^CapabilityBoundingSet=//p' "$unit" | tr 'A-Z' 'a-z' | sed 's/cap_/+/g; s/ /,/g')
: >"$D/gw.log"
nsenter --net="/run/netns/$G" setpriv --bounding-set "-all,$kept" "$SLUICE" run -c "$D/gw.conf" >>"$D/gw.log" 2>&1 </dev/null &
gateway_pid=$!
within 30 is_ready
check "the capabilities of the unit are enough to start and serve" echoes
take_baseline
kill -KILL "$(gateway_child)"
check "and to start again" within 30 eval 'grep -q "starts again" "$D/gw.log" && echoes'
take_baseline
gateway_end
check "and to clean up" test ! -e "/sys/fs/bpf/sluice/$GIF"

# --- the supervisor ---

gateway_start
child=$(gateway_child)
cl timeout 20 wrk -t1 -c16 -d12s "http://$V4:8080/echo" >"$D/wrk" 2>&1 &
load=$!
within 30 eval '[ "$(metric sluice_exchanges_total)" -gt 1000 ]'
signals="SEGV KILL"
[ "${SL_SANITIZED:-}" != 1 ] || signals=KILL # a sanitizer makes an exit status of the other
for signal in $signals; do
	: >"$D/gw.log"
	kill -$signal "$child"
	check "$signal: the interface is the kernel's meanwhile" within 30 cl ping -q -c 1 -W 2 "$V4"
	check "$signal: the reason is in the log" within 30 grep -q "supervisor: the gateway died of signal $(kill -l $signal) (.*); it starts again in [12] s" "$D/gw.log"
	check "$signal: it serves again" within 30 echoes
	check "$signal: by another process" test "$(gateway_child)" != "$child"
	child=$(gateway_child)
done
wait $load
check "the load went on after it" eval 'cat "$D/wrk"; grep -qE "[0-9]{4,} requests in" "$D/wrk"'
check "pins are there once" test -e "/sys/fs/bpf/sluice/$GIF/sl_rx_drops"
take_baseline
gateway_end
check "none after its end" test ! -e "/sys/fs/bpf/sluice/$GIF"

gateway_start
child=$(gateway_child)
kill -KILL "$gateway_pid"
wait "$gateway_pid" 2>/dev/null
gateway_pid=
check "a gateway does not outlive its supervisor" within 30 eval '! alive $child'
# Its pins are left: until some gateway starts, which may be another test's (bpf/xio/test_load sees them come and go).
gateway_start
kill -TERM "$(gateway_child)"
check "one that was told to end is not started again" within 30 eval '! alive $gateway_pid'
wait "$gateway_pid"
check "its status is the supervisor's" test $? -eq 0
gateway_pid=
check "no pins are left of either" test ! -e "/sys/fs/bpf/sluice/$GIF"

gateway_start
child=$(gateway_child)
config "nonsense"
kill -KILL "$child"
check "what does not start again is tried again, not for ever" within 30 eval '[ "$(grep -c "ended with status 1 before it served" "$D/gw.log")" -ge 2 ]'
check "with growing pauses" grep -q "before it served; it starts again in [24] s" "$D/gw.log"
kill -TERM "$gateway_pid"
check "and can be ended meanwhile" within 30 eval '! alive $gateway_pid'
wait "$gateway_pid"
check "with status 0, as was asked for" test $? -eq 0
gateway_pid=
check "a start that is wrong from the start is final" refused_in_one_line "gw.conf" nsenter --net="/run/netns/$G" "$SLUICE" run -c "$D/gw.conf"

config ""
: >"$D/gw.log"
nsenter --net="/run/netns/$G" "$SLUICE" run --no-supervise -c "$D/gw.conf" >>"$D/gw.log" 2>&1 </dev/null &
gateway_pid=$!
within 30 is_ready
check "--no-supervise: what was started serves itself" eval '[ "$(ls /proc/$gateway_pid/task | wc -l)" -gt 1 ] && echoes'
kill -KILL "$gateway_pid"
wait "$gateway_pid" 2>/dev/null
check "which dies of what kills it" test $? -eq 137
gateway_pid=
finish
