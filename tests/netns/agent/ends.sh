#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ends: of a server under load, of an agent, of all of it; and servers that a reload brings and takes away.
. "$(dirname "$0")/../lib.sh"

arena
# Starts again whenever it is killed.
serve() {
	while :; do
		/usr/bin/python3 "$here/agent/server.py" "127.0.0.1:$1"
		sleep 0.3
	done
}
export -f serve
export here
nsenter --net="/run/netns/$G" bash -c "serve 8000" >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
nsenter --net="/run/netns/$G" bash -c "serve 8001" >"$D/server1.log" 2>&1 </dev/null &
pid_of[server1]=$!
within 40 grep -qs listening "$D/server1.log" || say_failed "the server does not start"
within 40 grep -qs listening "$D/server.log" || say_failed "the server does not start"

config() {
	cat <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
pool a { backend a { endpoint = "http://127.0.0.1:8000" } }
route "/" { pool = a }
$1
CONF
}
config "" | gateway_config
gateway_start

guard() { pgrep -P "$(gateway_child)"; }
zygote() { pgrep -P "$(guard)"; }
agent() { pgrep -P "$(zygote)"; }
# All four numbers of both kinds, and no right left.
unprivileged() {
	local uid gid
	uid=$(id -u "$RUN_AS") gid=$(id -g "$RUN_AS")
	cat "/proc/$1/status"
	grep -qxP "Uid:(\t$uid){4}" "/proc/$1/status" && grep -qxP "Gid:(\t$gid){4}" "/proc/$1/status" &&
		grep -qxP 'CapEff:\t0+' "/proc/$1/status" && grep -qxP 'CapPrm:\t0+' "/proc/$1/status"
}
check "one agent" [ "$(agent | wc -l)" = 1 ]
check "as the gateway's account, without rights" unprivileged "$(agent)"
check "and so is its zygote" unprivileged "$(zygote)"

# load.py COMMAND [STATUS...]: COMMAND prints the process to kill; prints what 8 clients of each kind get meanwhile
cat >"$D/load.py" <<'PY'
from raw import *
import os, signal, sys, threading, time
CLIENTS, KILLS = 8, 3
stop, told, done = False, {"GET": [], "POST": []}, [0]
def ask_on(kind):
    while not stop:
        began = time.monotonic()
        try:
            r = get("/bytes?100") if kind == "GET" else post("/echo", b"x" * 100)
            # A 503 is right behind all the time that requests wait for a server (SL_BATCH_PATIENCE_NS).
            if r.status != 200 and not (r.status == 503 and time.monotonic() - began > 1.9):
                told[kind].append(r.status)
            done[0] += 1
        except Exception as e:
            told[kind].append(repr(e))
threads = [threading.Thread(target=ask_on, args=(k,)) for k in ("GET", "POST") for _ in range(CLIENTS)]
[t.start() for t in threads]
for _ in range(KILLS):
    expect("served", eventually(40, lambda n=done[0]: done[0] > n + 100), True)
    expect("a process", eventually(40, lambda: len(os.popen(sys.argv[1]).read().split()) == 1), True)
    os.kill(int(os.popen(sys.argv[1]).read()), signal.SIGKILL)
    expect("served again", eventually(40, lambda n=done[0]: done[0] > n + 100), True)
stop = True
[t.join() for t in threads]
# Other statuses of GETs are allowed where more has to start again than requests wait for.
expect("GETs that failed", set(told["GET"]) - {int(s) for s in sys.argv[2:]}, set())
expect("POSTs failed with", set(told["POST"]) - {502} - {int(s) for s in sys.argv[2:]}, set())
# Lost is what was written to a process that dies, one request a connection: those of all clients, and, since the kernel closes
# the listener after them (most times, if the machine is busy), once more for each client in its backlog.
expect("lost POSTs", [s for s in told["POST"] if s == 502][3 * CLIENTS * KILLS:], [])
print("requests", done[0], "lost POSTs", len(told["POST"]))
PY
check "a server is killed under load: what may be repeated is, and what waits waits" \
	cl timeout 200 python3 "$D/load.py" "pgrep -P ${pid_of[server]} -x python3"
check "an agent is killed under load: the same" cl timeout 200 python3 "$D/load.py" "pgrep -P $(zygote)"
check "and the status says so, and how the server is" within 10 eval 'gw "$SLUICE" status -c "$D/gw.conf" | tee "$D/out" | grep -q "^agent 0: process [0-9]*, [1-9][0-9]* restarts$" && grep -q "^server a/a, agent 0: up; in flight 0 of [0-9]* at a time, waiting 0, connections" "$D/out"'
check "and the metrics" [ "$(metric 'sluice_agent_restarts_total{agent="0"}')" -ge 3 -a "$(metric 'sluice_server_up{agent="0",server="a/a"}')" = 1 ]
check "the log says so" grep -q 'agent 0 died of signal 9; it starts again' "$D/gw.log"
check "their zygote is killed under load: the same" cl timeout 200 python3 "$D/load.py" "pgrep -P $(guard)" 502 503
check "the log says that too" [ "$(grep -c "zygote died of signal 9; it starts again" "$D/gw.log")" = 3 ]

config 'pool b { backend b { endpoint = "http://127.0.0.1:8001" } }
route "/b" { pool = b strip_prefix = yes }' | gateway_config
gw "$SLUICE" reload -c "$D/gw.conf" >"$D/out" 2>&1
b_is() { [ "$(cl curl -sS -o "$D/reply" -w '%{http_code}' "http://$V4:8080/b/bytes?3")" = "$1" ]; }
check "a reload brings a server" within 40 b_is 200
config "" | gateway_config
gw "$SLUICE" reload -c "$D/gw.conf" >"$D/out" 2>&1
check "and takes it away" within 40 b_is 404
# The guard holds only the folder: other gateways on the machine have agents too.
folder() { readlink "/proc/$(guard)"/fd/* | grep -m 1 /agents-; }
check "agents have sockets" eval '[ "$(find "$(folder)" -type s | wc -l)" -ge 1 ]'

gone=$(agent)
kill -KILL "$(gateway_child)"
check "agents end with their gateway" within 40 eval "! kill -0 $gone 2>/dev/null"
ready_again() { [ "$(grep -c '^ready$' "$D/gw.log")" = 2 ]; }
check "and come back with it" within 40 ready_again
served() { [ "$(cl curl -sS -m 5 "http://$V4:8080/bytes?3")" = 012 ]; }
check "which serves" within 40 served
take_baseline
finish
