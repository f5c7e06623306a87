#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# python.sh [ROUNDS [SECONDS]]: an echo of 64 bytes by a backend in Python (echo.py) and by one in C (`echo`), in turns.
# Both are behind the same gateway over shared memory: 256 connections of the same client (`sluice load` through AF_XDP). A worker of the gateway has
# core 0; the backend and the client share core 1. Needs root and two cores.
#
#   ratio python_over_c_backend      requests/s
#
# Prints the backend's own CPU time per request beside it: client and gateway affect requests/s, too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
BUILD=${BUILD:-$here/../../build}
ROUNDS=${1:-3} SECONDS_EACH=${2:-3}
. "$here/../arena.sh" up
declare -A pid_of

# backend NAME COMMAND...: in the gateway's group, which may connect
backend() {
	local name=$1
	shift
	PYTHONPATH=$BUILD/python taskset -c 1 setpriv --regid "$(id -g nobody)" --clear-groups "$@" >"$D/$name.log" 2>&1 &
	pids+=($!)
	pid_of[$name]=$!
	for _ in $(seq 100); do [ -S "$D/$name.sock" ] && return; sleep 0.1; done
	cat "$D/$name.log"
	exit 1
}
backend c "$BUILD/echo" --listen "shm://$D/c.sock"
backend python /usr/bin/python3 "$here/echo.py" "shm://$D/python.sock"
cat >"$D/gw.conf" <<CONF
user = nobody
interface "$G" { }
workers { cpus = {0} }
listener web { address = "10.99.0.1" port = 8080 }
admin { port = 0 socket = none }
pool c { backend a { endpoint = "shm://$D/c.sock" } }
pool python { backend a { endpoint = "shm://$D/python.sock" } }
route "/c" { pool = c }
route "/python" { pool = python }
CONF
ip netns exec "$G" taskset -c 0 "$BUILD/sluice" run -c "$D/gw.conf" >"$D/gw.log" 2>&1 & pids+=($!)
gateway_ready

# turn NAME PID: "requests/s ns-of-the-backend-per-request"
turn() {
	local before after
	before=$(cpu_ns "$2")
	ip netns exec "$C" taskset -c 1 "$BUILD/sluice" load --json --quiet --xdp "$C" --connections 256 --size 64 --echo \
		--time "${SECONDS_EACH}s" --warmup 200ms "http://10.99.0.1:8080/$1" >"$D/load"
	after=$(cpu_ns "$2")
	python3 - "$D/load" $((after - before)) "$SECONDS_EACH" <<'PY'
import json
import sys
run = json.load(open(sys.argv[1], encoding="ascii"))
if any(run["errors"].values()) or not run["requests"]:
    sys.exit(f"python.sh: not all was answered: {run}")
rate, used = run["requests_per_s"], int(sys.argv[2])
print(rate, used / (rate * (float(sys.argv[3]) + 0.2)))
PY
}
turn c "${pid_of[c]}" >/dev/null && turn python "${pid_of[python]}" >/dev/null
for _ in $(seq "$ROUNDS"); do
	turn c "${pid_of[c]}" >>"$D/rows.c"
	turn python "${pid_of[python]}" >>"$D/rows.python"
done
python3 - "$D/rows.python" "$D/rows.c" <<'PY'
import statistics
import sys
ours, theirs = ([[float(v) for v in line.split()] for line in open(path, encoding="ascii")] for path in sys.argv[1:])
for name, rows in (("python", ours), ("c", theirs)):
    print(f"{name}_backend\t{statistics.median(r[0] for r in rows):.6g}\trequests/s")
    print(f"{name}_backend_core\t{statistics.median(r[1] for r in rows):.4g}\tns of the backend's for a request")
print(f"ratio python_over_c_backend {statistics.median(a[0] / b[0] for a, b in zip(ours, theirs, strict=True)):.3f}")
PY
