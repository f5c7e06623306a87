#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Processes that die are started again, and what other processes have in /run/sluice stays. The test has a /run/sluice of its own.
[ -n "${SL_OWN_RUN:-}" ] || SL_OWN_RUN=1 exec unshare -m --propagation slave bash "$0" "$@"
. "$(dirname "$0")/../lib.sh"

mkdir -p /run/sluice
mount -t tmpfs -o mode=755 tmpfs /run/sluice || exit 1
arena

# --- backends' sockets in /run/sluice ---

in_group "$BUILD/echo" --listen shm:///run/sluice/echo.sock >"$D/echo.log" 2>&1 </dev/null &
pid_of[echo]=$!
within 30 test -S /run/sluice/echo.sock
# Sockets of a gateway that died: nothing listens there. One has the name of an admin socket, the other has not.
python3 -c 'import socket, sys
for path in sys.argv[1:]:
	socket.socket(socket.AF_UNIX).bind(path)' "/run/sluice/$GIF@1.sock" /run/sluice/other.sock
echoes() { cl curl -sf --max-time 5 -o /dev/null "http://$V4:8080/echo"; }
config() {
	gateway_config <<END
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm:///run/sluice/echo.sock" } }
route "/echo" { pool = echo }
$1
END
}
config "admin { socket = \"/run/sluice/echo.sock\" }"
refused() { ! gw timeout 20 "$SLUICE" run -c "$D/gw.conf" && [ -S /run/sluice/echo.sock ]; }
check "a backend's socket is no place for the admin socket" refused
config ""
gateway_spawn
check "a backend that was there before the gateway is connected to" within 30 echoes
check "its socket is still there" test -S /run/sluice/echo.sock
check "the socket of a dead gateway is not" test ! -e "/run/sluice/$GIF@1.sock"
check "a socket of unknown purpose is" test -S /run/sluice/other.sock
within 30 is_ready
kill -KILL "$(gateway_child)"
check "the backend is connected to again after a crash of the gateway" within 30 eval 'grep -q "starts again" "$D/gw.log" && echoes'
within 30 eval '[ "$(grep -c "^ready$" "$D/gw.log")" -eq 2 ]'
gateway_stop
check "and its socket stays when the gateway ends" test -S /run/sluice/echo.sock

# --- each process dies ---

# The server has a name, which agents look up behind their walls.
for host in 1 2; do
	mkdir "$D/$host"
	echo "hello $host" >"$D/$host/page"
	gw python3 -m http.server --bind 127.0.0.$host 9001 --directory "$D/$host" >/dev/null 2>&1 </dev/null &
	pid_of[server$host]=$!
	echo "127.0.0.$host app.test" >"$D/hosts$host"
done
chmod -R a+rX "$D"
mount --bind "$D/hosts1" /etc/hosts
page() { [ "$(cl curl -s --max-time 5 "http://$V4:8080/page")" = "hello ${1:-1}" ]; }
child_of() { pgrep -P "$1" | head -n 1; }
process() {
	case $1 in
	gateway) gateway_child ;;
	guard) child_of "$(gateway_child)" ;;
	zygote) child_of "$(process guard)" ;;
	agent) child_of "$(process zygote)" ;;
	esac
}
config 'pool app { backend s { endpoint = "http://app.test:9001" } }
route "/" { pool = app }'
signals="KILL SEGV"
[ "${SL_SANITIZED:-}" != 1 ] || signals=KILL
for signal in $signals; do
	gateway_start # its supervisor waits longer after each death
	for name in agent zygote guard gateway; do
		within 30 page
		pid=$(process $name)
		: >"$D/gw.log"
		kill -$signal "$pid"
		within 30 eval "! alive $pid"
		check "$signal: without the $name that was, servers are reached again" within 30 page
		check "$signal: and backends" within 30 echoes
		check "$signal: it is another $name" test "$(process $name)" != "$pid"
		check "$signal: the log says so" grep -qE "(agent 0|zygote|gateway) (died of signal|ended|has died)" "$D/gw.log"
	done
	gateway_stop
done
gateway_start
folders() { find /run/sluice -mindepth 1 -maxdepth 1 -name 'agents-*' | wc -l; }
check "there is one folder of agents" test "$(folders)" -eq 1

# --- another file takes the place of one of the resolver's ---

within 30 page
mount --bind "$D/hosts2" /etc/hosts
check "agents find a server by its new address" within 30 page 2
mount --bind "$D/hosts1" /etc/hosts
within 30 page

# --- the runtime folder is removed ---

within 30 page
before=$(stat -c '%A %U' /run/sluice/agents-*)
: >"$D/gw.log"
rm -rf /run/sluice/*
check "a folder of agents that was removed is made again" within 30 eval '[ "$(folders)" -eq 1 ]'
check "for the same account" test "$(stat -c '%A %U' /run/sluice/agents-*)" = "$before"
check "the log says so" within 30 grep -q "/run/sluice/agents-.* was removed: it is made again" "$D/gw.log"
check "agents listen there" within 30 eval '[ -n "$(ls /run/sluice/agents-*)" ]'
check "and serve" within 30 page
kill -KILL "$(process agent)"
check "also after one has died" within 30 page
kill -KILL "$(process gateway)"
check "and the gateway" within 30 page
kill_backend echo # its socket was removed, too
in_group "$BUILD/echo" --listen shm:///run/sluice/echo.sock >>"$D/echo.log" 2>&1 </dev/null &
pid_of[echo]=$!
within 30 echoes
gateway_stop
check "the end leaves no folder" test "$(folders)" -eq 0
gateway_start
within 30 page
last=$(process agent)
kill -KILL "$gateway_pid"
wait "$gateway_pid" 2>/dev/null
within 30 eval "! alive $last"
gateway_start
check "what a killed supervisor has left is removed by the next" within 10 eval '[ "$(folders)" -eq 1 ]'
within 30 page
finish
