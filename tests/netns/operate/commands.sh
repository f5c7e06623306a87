#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An operator's view: errors as one line, status, top, set, trace, metrics, doctor, reload, privileges.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
config() {
	gateway_config <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
route "/" { respond { status = 200 body = "hello\n" } }
$1
EOF
}

# one_line TEXT COMMAND...: it fails, and all that it says is one line with this text
one_line() {
	local text=$1
	shift
	if "$@" >"$D/said" 2>&1; then
		echo "it did not fail"
		return 1
	fi
	cat "$D/said"
	[ "$(wc -l <"$D/said")" -eq 1 ] && grep -qF "$text" "$D/said"
}
for command in check run; do
	config "limits { max_bdy = 1m }"
	check "$command: an unknown key" one_line "gw.conf:6: found unknown key \"max_bdy\" (did you mean max_body?); allowed: " gw "$SLUICE" $command -c "$D/gw.conf"
	config "limits { max_body = 99g }"
	check "$command: out of range" one_line "gw.conf:6: found max_body = \"99g\"; allowed: " gw "$SLUICE" $command -c "$D/gw.conf"
	config "interface nosuch0 { }"
	check "$command: an unknown interface" one_line "gw.conf:6: found no interface \"nosuch0\" here; allowed: " gw "$SLUICE" $command -c "$D/gw.conf"
	config "limits { max_bdy = 1m max_body = 99g } interface $GIF { }
listener v4 { address = \"$V4\" prt = 8080 } log_level = 7"
	check "$command: every mistake has its line" eval '! gw "$SLUICE" '"$command"' -c "$D/gw.conf" >"$D/said" 2>&1; cat "$D/said"; [ "$(cut -d: -f2 "$D/said" | tr "\n" " ")" = "6 6 6 7 7 7 " ]'
	check "$command: no such file" one_line "/nowhere.conf:0: found no readable file" gw "$SLUICE" $command -c /nowhere.conf
done
config ""
check "check: a right one" gw "$SLUICE" check -c "$D/gw.conf"
config "listener far { address = \"10.98.0.1\" port = 80 } pool idle { backend a { endpoint = \"shm:///x\" } }"
check "check warns of what is seldom meant" eval 'gw "$SLUICE" check -c "$D/gw.conf" >"$D/said"; cat "$D/said"; [ "$(wc -l <"$D/said")" -eq 3 ] && grep -q "gw.conf:6: warning: listener \"far\": no interface here has its address" "$D/said" && grep -q "gw.conf:6: warning: pool \"idle\": no route" "$D/said"'
{ cat "$D/gw.conf"; echo 'limits { keepalive = 5s }'; } >"$D/former.conf"
check "check names the former name of a key and the new one" eval 'gw "$SLUICE" check -c "$D/former.conf" >"$D/said"; cat "$D/said"; grep -q "^$D/former.conf:[0-9]*: warning: key \"limits.keepalive\" is now \"tcp.keepalive\"" "$D/said"'
check "check --fix prints a file without former names" eval '"$SLUICE" check --fix -c "$D/former.conf" >"$D/fixed.conf"; cat "$D/fixed.conf"; gw "$SLUICE" check -c "$D/fixed.conf" >"$D/said" && ! grep -q "is now" "$D/said"'
# A pipeline has neither the interface nor the account, and gets all mistakes in one round.
config "user = nosuchuser interface nosuch0 { } listener far { address = \"10.98.0.1\" port = 80 }"
installed=$here/../../user/service/sluice.conf # names none
check "check --has-interface: the installed configuration names none" eval '"$SLUICE" check --has-interface -c "$installed" >"$D/said"; r=$?; cat "$D/said"; [ $r -eq 1 ] && grep -q "names no interface" "$D/said"'
check "but for its interface it is right" eval '{ echo "interface \"eth0\" { }"; cat "$installed"; } >"$D/installed.conf"; "$SLUICE" check --offline -c "$D/installed.conf"'
check "check --has-interface: one that does passes" "$SLUICE" check --has-interface -c "$D/gw.conf"
check "check --has-interface: mistakes are left to run" eval 'echo nonsense >"$D/broken.conf"; "$SLUICE" check --has-interface -c "$D/broken.conf"'
check "check --offline looks at the file alone" eval '"$SLUICE" check --offline -c "$D/gw.conf" >"$D/said" 2>&1; r=$?; cat "$D/said"; [ $r -eq 0 ] && [ "$(wc -l <"$D/said")" -eq 1 ]'
config "user = nosuchuser interface nosuch0 { } listener s { port = 44 tls { certificate = \"/none.pem\" key = \"/none.key\" } }"
check "check tells what the host lacks in one round" eval '! gw "$SLUICE" check -c "$D/gw.conf" >"$D/said" 2>&1; cat "$D/said"; grep -q "no interface \"nosuch0\"" "$D/said" && grep -q "user = \"nosuchuser\"" "$D/said" && grep -q /none.pem "$D/said"'
# Files that a stranger could change, and what never ends.
config ""
chmod 666 "$D/gw.conf"
check "a file that others may write is refused" one_line "gw.conf:0: found a file that others may write (mode 666); allowed: " gw "$SLUICE" run -c "$D/gw.conf"
rm "$D/gw.conf"
mkfifo "$D/gw.conf"
check "and a FIFO, at once" one_line "gw.conf:0: found a FIFO; allowed: a regular file" gw timeout 20 "$SLUICE" run -c "$D/gw.conf"
rm "$D/gw.conf"
config ""
check "check --json" eval 'gw "$SLUICE" check --json -c "$D/gw.conf" | python3 -c "import json, sys; sys.exit(not json.load(sys.stdin)[\"ok\"])"'

gateway_start
check "the start is told" eval 'grep -q "^listener v4: $V4 port 8080 http" "$D/gw.log" && grep -q "^backend echo/a: shm://" "$D/gw.log"'
cl curl -sf --max-time 10 "http://$V4:8080/echo" >/dev/null
cl curl -sf --max-time 10 "http://$V4:8080/" >/dev/null
cl curl -s --max-time 10 "http://$V4:8080/echo" -H 'Host: a' -H 'Host: b' >/dev/null

check "livez" eval '[ "$(admin /livez)" = ok ]'
check "readyz" eval '[ "$(admin /readyz)" = ready ]'
check "status" eval 'gw "$SLUICE" status | tee "$D/status"; grep -q "^ready" "$D/status" && grep -q "backend echo/a, worker 0: up" "$D/status"'
check "status finds the endpoint by -c" gw "$SLUICE" status -c "$D/gw.conf"
check "status --json" eval 'gw "$SLUICE" status --json | python3 -c "import json, sys; sys.exit(json.load(sys.stdin)[\"ready\"] is not True)"'
check "status without a gateway is one line" one_line "no gateway answers at" "$SLUICE" status --admin 127.0.0.1:1
check "top" eval 'gw "$SLUICE" top --count 2 --interval 200ms | grep -q "^echo .*"'
check "top --json" eval 'gw "$SLUICE" top --json --count 1 --interval 200ms | python3 -c "import json, sys; sys.exit([o := json.load(sys.stdin)] and (o[\"pools\"][0][\"pool\"] != \"echo\" or o[\"services\"] != o[\"pools\"]))"'
(until [ -e "$D/traced" ]; do cl curl -s --max-time 5 "http://$V4:8080/echo" >/dev/null; sleep 0.2; done) &
check "trace" eval 'gw "$SLUICE" trace --count 3 --interval 400ms | grep -q "outcome ok"'
touch "$D/traced"
wait $!
check "metrics have requests and stages" eval '[ "$(metric "sluice_exchanges_total{worker=\"0\",outcome=\"ok\"}")" -gt 0 ] && [ "$(metric "sluice_stage_seconds_count{pool=\"echo\",stage=\"total\"}")" -gt 0 ]'
check "set" eval 'gw "$SLUICE" set echo size=3 delay=0 && bpftool map dump pinned "/sys/fs/bpf/sluice/$GIF/sl_svc_ctl" | grep -q "\"batch_size\": 3"'
check "set back" eval 'gw "$SLUICE" set echo size=auto hold=auto && bpftool map dump pinned "/sys/fs/bpf/sluice/$GIF/sl_svc_ctl" | grep -q "\"batch_size\": 0"'
check "set of nonsense is one line" one_line 'found size = "many"; allowed: 1 to 1024, or auto' gw "$SLUICE" set echo size=many
check "set of an unknown pool is one line" one_line "found no such pool" gw "$SLUICE" set nopool size=1
check "the dashboard" eval 'admin / | grep -q "<title>sluice</title>"'
check "events" eval '[ "$(gw curl -sN --max-time 60 http://127.0.0.1:9900/events | grep -c -m 2 "^data: {")" -eq 2 ]'
check "the admin endpoint is not on the served interface" eval '! cl nc -z -w 1 "$V4" 9900'

# But the one for ports that a reload adds: CAP_NET_BIND_SERVICE.
no_caps() {
	local s bad=0
	for s in /proc/"$(gateway_child)"/task/*/status; do
		grep -qE '^CapEff:\s+0+400$' "$s" && grep -qE '^CapPrm:\s+0+400$' "$s" && grep -q '^NoNewPrivs:.*1' "$s" || { grep -E 'Name|Cap' "$s"; bad=1; }
	done
	return $bad
}
check "no thread has another capability left" no_caps
sleeps() { [ "$(stat_sum sleeps)" -gt 0 ]; }
check "the worker sleeps when there is nothing to do" sleeps
check "and wakes for a request, without capabilities" cl curl -sf --max-time 10 "http://$V4:8080/echo"

kill -HUP "$gateway_pid"
check "SIGHUP without a change" within 30 grep -q "reload: in force: nothing new; needs a restart: nothing" "$D/gw.log"
config "workers { busy_poll = 5us } log_level = debug"
kill -HUP "$gateway_pid"
check "SIGHUP names what needs a restart" within 30 grep -q "reload: in force: log_level; needs a restart: workers.busy_poll" "$D/gw.log"
config "nonsense"
kill -HUP "$gateway_pid"
check "SIGHUP with an error changes nothing" within 30 grep -q "reload: nothing changed: .*gw.conf:" "$D/gw.log"
check "still serving" cl curl -sf --max-time 10 "http://$V4:8080/echo"
check_leftovers
gateway_stop

# A service manager wants to be told, by the process that it started.
manager_start() {
	rm -f "$D/notify"
	python3 - "$D/notify" "$D/notified" <<'EOF' &
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
s.settimeout(30)
with open(sys.argv[2], "w", buffering=1) as told:
    while True:
        told.write(s.recv(600).decode() + "\n")
EOF
	manager=$!
	within 30 test -S "$D/notify"
	export NOTIFY_SOCKET=$D/notify
}
config "nonsense"
manager_start
check "a start that is refused" eval '! gw timeout 20 "$SLUICE" run -c "$D/gw.conf"'
within 30 grep -q '^STATUS=' "$D/notified"
kill $manager
check "tells its reason as the status of the unit, in one line" eval 'cat "$D/notified"; grep -qE "^STATUS=$D/gw.conf:[0-9]+: found .*nonsense.*" "$D/notified" && [ "$(grep -c "" "$D/notified")" -eq 1 ]'
config ""
manager_start
gateway_start
unset NOTIFY_SOCKET
check "runs as another account" eval 'grep -qE "^Uid:\s+$(id -u nobody)\s+$(id -u nobody)" /proc/$(gateway_child)/status'
check "no thread has another capability left then" no_caps
check "serves as another account" cl curl -sf --max-time 10 "http://$V4:8080/echo"
check "READY=1 was sent" within 30 grep -q '^READY=1$' "$D/notified"
check "the status says that it serves" within 30 grep -q '^STATUS=serving$' "$D/notified"
kill_backend echo
rm -f "$D/echo.sock"
check "the status names the pool without a backend" within 30 grep -q '^STATUS=serving; no backend: echo$' "$D/notified"
backend echo echo
check "and a backend that comes back" within 30 cl curl -sf --max-time 10 "http://$V4:8080/echo"
kill $manager
check_leftovers
gateway_stop
check "no pins are left, though its account may not remove them" test ! -e "/sys/fs/bpf/sluice/$GIF"

check "doctor" eval 'gw "$SLUICE" doctor "$GIF" | tee "$D/doctor"; grep -qE "^ok +kernel" "$D/doctor" && grep -qE "$GIF XDP +native" "$D/doctor" && grep -qE "$GIF AF_XDP +(zero-copy|copy|generic)" "$D/doctor" && grep -q RDMA "$D/doctor"'
check "doctor --json" eval 'gw "$SLUICE" doctor --json "$GIF" | python3 -c "import json, sys; sys.exit(len(json.load(sys.stdin)) < 8)"'
sed '/^interface/s/{ }/{ busy_poll = yes }/' "$D/gw.conf" >"$D/busy.conf"
busy_poll() { ip netns exec "$G" "$SLUICE" doctor -c "$D/busy.conf" | tee /dev/stderr | grep -qE "^$1 +$GIF busy poll +$2"; }
check "doctor: busy_poll that interrupts make ineffective" busy_poll note 'without effect while napi_defer_hard_irqs \(0\)'
ip netns exec "$G" sh -c "echo 2 >/sys/class/net/$GIF/napi_defer_hard_irqs; echo 200000 >/sys/class/net/$GIF/gro_flush_timeout"
check "doctor: busy_poll with interrupts deferred" busy_poll ok 'napi_defer_hard_irqs 2, gro_flush_timeout 200000 ns'
check "doctor on an interface that is not there" eval '! gw "$SLUICE" doctor nosuch0'
check "version" eval '"$SLUICE" version | grep -qE "^sluice [0-9]+\.[0-9]+"'
check "help lists every command" eval '"$SLUICE" help >"$D/help"; for c in run check demo status top set drain doctor trace; do grep -q "^  $c " "$D/help" || exit 1; "$SLUICE" $c --help | grep -q "^Usage: sluice $c" || exit 1; done'
check "help config lists keys with defaults" eval '"$SLUICE" help config | grep -A 2 " drain_timeout " | grep -q "default: 15s"'
finish
