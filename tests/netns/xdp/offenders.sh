#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Addresses that limits refuse too often are dropped by the XDP program for a time; unproven, excepted and named ones never.
. "$(dirname "$0")/../lib.sh"

arena 2
ip -n "$C" addr add 10.99.0.3/24 dev "$CIF"
ip -n "$C" addr add 10.99.0.4/24 dev "$CIF"
backend a echo
config() { # config TIME
	cat <<EOC
interface $GIF { queues = {0, 1} }
workers { count = 2 }
listener web { address = "$V4" port = 8080 protocols = {http, datagram} }
listener v6 { address = "$V6" port = 8080 }
listener named { address = "$V4" port = 8081 proxy_protocol = {10.99.0.4} }
penalty { after = 20  within = 1h  time = $1  except = {10.99.0.3} }
limits { address_connections = 40 }
pool echo { backend a { endpoint = "shm://$D/a.sock" } batch { max_latency = 10s } }
# Rates of a day give a bucket no token while this runs.
quota few { rate = 1/d  burst = 5 }
quota route { by = route  rate = 1/d  burst = 1 }
route "/" { respond { body = "hello\n" } }
route "/few" { respond { body = "few\n" }  quotas = {few} }
route "/route" { respond { body = "route\n" }  quotas = {route} }
route "/echo" { pool = echo  quotas = {few} }
EOC
}
config 1h | gateway
gw /usr/bin/python3 -m http.server -b :: 2222 >"$D/kernel.log" 2>&1 &
pid_of[kernel]=$!
within 30 gw bash -c 'exec 3<>/dev/tcp/127.0.0.1/2222' 2>/dev/null || say_failed "the kernel's server does not start"

get() { cl curl -sS --max-time "${3:-10}" --interface "$1" "http://${2:-$V4}:8080/"; }
served() { [ "$(get "$@")" = hello ]; }
offender() { metric "sluice_rx_packets_total{interface=\"$GIF\",verdict=\"offender\"}"; }
listed() { metric "sluice_offenders{interface=\"$GIF\"}"; }
# Dropped, not refused: nothing comes back.
dropped() {
	local before
	before=$(offender)
	get "$1" "${2:-$V4}" 1
	[ $? -eq 28 ] && [ "$(offender)" -gt "$before" ]
}
unban() { gw "$SLUICE" set --interface "$GIF" "unban=$1" >"$D/said" && cat "$D/said" && within 30 eval '[ "$(listed)" -eq 0 ]'; }
cat >"$D/offend.py" <<'PY'
"""offend.py SOURCE HOST PORT PATH COUNT [PROXIED]: requests on few connections; prints how many got each status."""
import collections, socket, sys
source, host, port, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
head = f"PROXY TCP4 {sys.argv[6]} 10.99.0.1 4000 80\r\n".encode() if len(sys.argv) > 6 else b""
s = socket.create_connection((host, port), 15, (source, 0))
s.sendall(head)
got = collections.Counter()
f = s.makefile("rb")
for i in range(count):
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    got[f.readline().split()[1].decode()] += 1
    size = 0
    while (line := f.readline().strip()):
        if line.lower().startswith(b"content-length:"):
            size = int(line.split(b":")[1])
    f.read(size)
print(*(f"{k}:{v}" for k, v in sorted(got.items())))
PY
offend() { cl timeout 200 python3 "$D/offend.py" "$@"; }

check "as many refusals as are allowed" eval '[ "$(offend 10.99.0.2 $V4 8080 /few 25)" = "200:5 429:20" ] && served 10.99.0.2 && [ "$(listed)" -eq 0 ]'

# A connection that exists when its address is listed.
mkfifo "$D/go"
cl timeout 120 python3 - "$D/go" >"$D/kept" 2>&1 <<'EOF' &
import socket, sys
s = socket.create_connection(("10.99.0.1", 8080), 10, ("10.99.0.2", 0))
def ask(limit):
    s.settimeout(limit)
    s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    return s.recv(1000)[:12].decode()
print(ask(10), flush=True)
go = open(sys.argv[1])
go.readline()
try:
    print(ask(1), flush=True)
except TimeoutError:
    print("silence", flush=True)
go.readline()
s.settimeout(60)
print(s.recv(1000)[:12].decode(), flush=True)
EOF
kept=$!
exec 7>"$D/go"
within 30 grep -q 200 "$D/kept"
check "one more lists the address" eval 'offend 10.99.0.2 $V4 8080 /few 1 && within 30 eval "[ \"\$(listed)\" -eq 1 ]"'
check "its packets are dropped" dropped 10.99.0.2
check "those of another are not" served 10.99.0.3
check "nor those of IPv6" served fd99::2 "[$V6]"
check "the kernel's ports are open to it" cl curl -sS --max-time 10 --interface 10.99.0.2 -o /dev/null "http://$V4:2222/"
check "and ping" cl ping -c 1 -W 5 -I 10.99.0.2 "$V4"
echo >&7
check "an open connection is held back" within 30 grep -q silence "$D/kept"
check "the log tells it" grep -q "client 10.99.0.2: limits refused it more than 20 times in 3600s; its packets are dropped for 3600s" "$D/gw.log"
check "status tells it" eval 'gw "$SLUICE" status -c "$D/gw.conf" >"$D/said"; cat "$D/said"; grep -q "offenders: 1 " "$D/said"'
check "bpftool reads the map" eval 'bpftool map dump pinned "/sys/fs/bpf/sluice/$GIF/sl_offenders" | tee "$D/said"; tr -d " \n" <"$D/said" | grep -q "\"key\":{\"addr\":\[10,99,0,2,0,0,0,0\],\"family\":4},\"value\":{\"until_ns\":[0-9]"'
check "unban" unban 10.99.0.2
check "it is served again" served 10.99.0.2
echo >&7
check "its connection goes on" eval 'wait $kept; cat "$D/kept"; [ "$(tail -n 1 "$D/kept")" = "HTTP/1.1 200" ]'
exec 7>&-

check "IPv6: the /64" eval 'offend fd99::2 $V6 8080 /few 40 >/dev/null; within 30 eval "[ \"\$(listed)\" -eq 1 ]" && dropped fd99::2 "[$V6]" && served 10.99.0.2'
check "nonsense is one line" eval '! gw "$SLUICE" set --interface "$GIF" unban=fd99::/60 2>"$D/said"; cat "$D/said"; [ "$(wc -l <"$D/said")" -eq 1 ] && grep -q "found unban = \"fd99::/60\"; allowed: an address" "$D/said"'
check "unban by any of its addresses" eval 'unban fd99::77 && served fd99::2 "[$V6]"'

check_py "connections beyond the limit count" <<'EOF'
import socket
held = []
for i in range(300):
    try:
        held.append(socket.create_connection(("10.99.0.1", 8080), 2, ("10.99.0.2", 0)))
    except TimeoutError:
        break
    except OSError:
        pass # reset at once
EOF
check "so their address is listed" within 30 eval '[ "$(listed)" -eq 1 ]'
check "unban" unban 10.99.0.2

# None of these is ever listed. A report takes at most 100 ms to the map; the address that is listed last comes after all.
check "a network of except" eval '[ "$(offend 10.99.0.3 $V4 8080 /few 60)" = "200:5 429:55" ]'
check "a quota that others can use up" eval '[ "$(offend 10.99.0.2 $V4 8080 /route 60)" = "200:1 429:59" ]'
check "an address in a PROXY header" eval 'offend 10.99.0.4 $V4 8081 /few 60 10.99.0.2 | grep -q 429:'
check "a balancer itself" eval 'offend 10.99.0.4 $V4 8080 /few 60 | grep -q 429:'
check "clients on kernel sockets" eval 'gw timeout 60 python3 "$D/offend.py" "$V4" "$V4" 8080 /few 60 | grep -q 429:'
check "SYNs from forged sources" eval 'cl "$BUILD/tests/netns/flood" "$CIF" "$(ip -n "$G" -o link show dev "$GIF" | grep -o "ether [^ ]*" | cut -d" " -f2)" "$V4" 8080 1 2000 10.99.0.77'
check "an address that does offend is listed after them" eval 'offend 10.99.0.2 $V4 8080 /few 40 >/dev/null; within 30 eval "[ \"\$(listed)\" -ge 1 ]"'
check "alone" eval 'gw "$SLUICE" set --interface "$GIF" | tee "$D/said" | grep -q "\"offenders\":\[{\"source\":\"10.99.0.2\",\"left_ms\":[0-9]*}\]"'
check "unban" unban 10.99.0.2

config 2s | gateway_config
check "reload" eval 'gw "$SLUICE" reload && within 30 grep -q "reload: in force" "$D/gw.log"'
# The log has at most one line per second, so the first offence may have none.
offends_for_2s() {
	offend 10.99.0.2 "$V4" 8080 /few 40 >/dev/null
	grep -q "client 10.99.0.2: .* for 2s" "$D/gw.log"
}
check "listed for 2 s" within 60 offends_for_2s
check "served again without unban" within 60 served 10.99.0.2 "$V4" 1
check "and removed from the map" within 30 eval '[ "$(listed)" -eq 0 ]'
config 1h | sed '/^penalty/d' | gateway_config
check "a reload without penalty forgets all" eval 'config 1h | gateway_config; gw "$SLUICE" reload; offend 10.99.0.2 $V4 8080 /few 40 >/dev/null; within 30 eval "[ \"\$(listed)\" -eq 1 ]"; sed -i "/^penalty/d" "$D/gw.conf"; gw "$SLUICE" reload && within 30 eval "[ \"\$(listed)\" -eq 0 ]" && served 10.99.0.2'
finish
