#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Standard error that nothing reads: a full pipe, then one without a reader. The service goes on; lost lines are counted, and told later.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gw python3 -m http.server --bind 127.0.0.1 9001 --directory "$D" >/dev/null 2>&1 </dev/null &
pid_of[server]=$!
gateway_config <<END
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
pool app { backend s { endpoint = "http://127.0.0.1:9001" } }
route "/echo" { pool = echo }
route "/" { pool = app }
limits { drain_timeout = 5s }
END
echo hello >"$D/page"
chmod 644 "$D/page"

# The pipe's reader: fills it, and reads from SIGUSR1 on.
mkfifo "$D/err"
cat >"$D/reader.py" <<'END'
import fcntl, os, signal, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 4096)
os.write(fd, b"x" * 4095 + b"\n")
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("full", flush=True)
signal.sigwait([signal.SIGUSR1])
while True:
    sys.stdout.buffer.write(os.read(fd, 4096))
    sys.stdout.flush()
END
start_reader() {
	python3 "$D/reader.py" "$D/err" >"$D/err.txt" 2>&1 </dev/null &
	pid_of[reader]=$!
	within 30 grep -q full "$D/err.txt"
}
echoes() { cl curl -sf --max-time 5 -o /dev/null "http://$V4:8080/echo"; }
page() { [ "$(cl curl -s --max-time 5 "http://$V4:8080/page")" = hello ]; }
live() { [ "$(admin /livez)" = ok ]; }
agent_pid() { pgrep -P "$(pgrep -P "$(pgrep -P "$(gateway_child)")")"; }
serves() {
	check "$1: it becomes ready" within 30 is_ready
	check "$1: it serves a backend" within 30 echoes
	check "$1: and a server behind an agent" within 30 page
	check "$1: liveness" within 10 live
	check "$1: status" gw timeout 10 "$SLUICE" status -c "$D/gw.conf"
	check "$1: reload" gw timeout 20 "$SLUICE" reload -c "$D/gw.conf"
	kill_backend echo
	backend echo echo
	check "$1: a backend that comes back is connected to" within 30 echoes
	kill -KILL "$(agent_pid)"
	check "$1: an agent that dies is started again" within 30 page
}
ends() {
	local pid=$gateway_pid
	gateway_pid=
	check "$1: SIGTERM ends it" end_process "$pid" 20
	check "$1: with status 0" test "$status" -eq 0
}

start_reader
: >"$D/gw.log"
nsenter --net="/run/netns/$G" "$SLUICE" run -c "$D/gw.conf" >"$D/gw.log" 2>"$D/err" </dev/null &
gateway_pid=$!
serves "full pipe"
lost=$(metric sluice_log_lines_lost_total)
check "full pipe: lost lines are counted" test "${lost:-0}" -gt 0
kill -USR1 "${pid_of[reader]}"
check "full pipe: and told once there is room" within 30 grep -qE "[1-9][0-9]* lines of the log were lost" "$D/err.txt"
lost=$(metric sluice_log_lines_lost_total)
kill_backend echo
backend echo echo
check "full pipe: then lines come again" within 30 grep -q "backend echo/a is up" "$D/err.txt"
check "full pipe: none is lost" test "$(metric sluice_log_lines_lost_total)" = "$lost"

kill_backend reader
within 30 echoes
serves "no reader"
child=$(gateway_child)
kill -KILL "$child"
check "no reader: a gateway that dies is started again" within 30 eval 'echoes && [ "$(gateway_child)" != "$child" ]'
within 30 page
ends "no reader"

# Both streams are a full pipe, from the start to the end.
start_reader
: >"$D/gw.log"
nsenter --net="/run/netns/$G" "$SLUICE" run -c "$D/gw.conf" >"$D/err" 2>&1 </dev/null &
gateway_pid=$!
check "both full: it serves" within 30 page
ends "both full"

# Nothing is written to what takes the number of a closed descriptor.
nsenter --net="/run/netns/$G" "$SLUICE" run -c "$D/gw.conf" >"$D/gw.log" 2>&- </dev/null &
gateway_pid=$!
check "closed: it serves" within 30 page
check "closed: standard error is /dev/null" test "$(readlink "/proc/$gateway_pid/fd/2")" = /dev/null
ends "closed"
exit_with_counts
