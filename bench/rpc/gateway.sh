#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gateway.sh [ROUNDS [SECONDS]]: urgent requests of 64 bytes, 500 a second, beside 1 MiB ones, four at a time, through the whole
# gateway to one backend over shared memory: with a class for each route, and with the same for both, in turns. Rows
# name<TAB>value<TAB>unit. A worker of the gateway has core 0, the backend and the clients share core 1. Needs root and two cores.
#
# Both kinds of a turn are of one pool, so they share its batcher, their batches, and the channel.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
BUILD=${BUILD:-$here/../../build}
ROUNDS=${1:-5} SECONDS_EACH=${2:-2}
. "$here/../arena.sh" ug

# In the gateway's group, which may connect.
taskset -c 1 setpriv --regid "$(id -g nobody)" --clear-groups "$BUILD/echo" --listen "shm://$D/a.sock,shm://$D/b.sock" >"$D/echo.log" 2>&1 & pids+=($!)
for _ in $(seq 100); do [ -S "$D/b.sock" ] && break; sleep 0.1; done
cat >"$D/gw.conf" <<CONF
user = nobody
interface "$G" { }
workers { cpus = {0} }
listener web { address = "10.99.0.1" port = 8080 }
admin { port = 0 socket = none }
pool classes { batch { bound = 1s } backend a { endpoint = "shm://$D/a.sock" } }
pool alike { batch { bound = 1s } backend a { endpoint = "shm://$D/b.sock" } }
route "/classes/urgent" { pool = classes priority = latency max_body = 16M }
route "/classes/bulk" { pool = classes priority = bulk max_body = 16M }
route "/alike/urgent" { pool = alike priority = bulk max_body = 16M }
route "/alike/bulk" { pool = alike priority = bulk max_body = 16M }
CONF
ip netns exec "$G" taskset -c 0 "$BUILD/sluice" run -c "$D/gw.conf" >"$D/gw.log" 2>&1 & pids+=($!)
gateway_ready

# A turn: "p50-us p99-us MB/s".
turn() { # KIND
	local bulk
	ip netns exec "$C" taskset -c 1 "$BUILD/sluice" load --json --connections 4 --size 1048576 --time "${SECONDS_EACH}s" --warmup 200ms \
		"http://10.99.0.1:8080/$1/bulk" >"$D/bulk" & bulk=$!
	ip netns exec "$C" taskset -c 1 "$BUILD/sluice" load --json --rate 500 --connections 4 --size 64 --time "${SECONDS_EACH}s" --warmup 200ms \
		"http://10.99.0.1:8080/$1/urgent" >"$D/urgent"
	wait "$bulk"
	python3 - "$D/urgent" "$D/bulk" <<'PY'
import json
import sys
urgent, bulk = (json.load(open(path, encoding="ascii")) for path in sys.argv[1:])
for run in (urgent, bulk):
    if any(run["errors"].values()) or not run["requests"]:
        sys.exit(f"gateway.sh: not all was answered: {run}")
latency = urgent["latency_ns"]
print(latency["p50"] / 1e3, latency["p99"] / 1e3, bulk["requests_per_s"] * 1.048576)
PY
}
turn classes >/dev/null && turn alike >/dev/null
for _ in $(seq "$ROUNDS"); do
	for kind in classes alike; do turn $kind >>"$D/rows.$kind"; done
done
python3 - "$D/rows.classes" "$D/rows.alike" <<'PY'
import statistics
import sys
classes, alike = ([[float(v) for v in line.split()] for line in open(path, encoding="ascii")] for path in sys.argv[1:])
names = (("urgent_p50", "us"), ("urgent_p99", "us"), ("bulk_1MiB", "MB/s"))
for i, (name, unit) in enumerate(names):
    for kind, rows in (("classes", classes), ("alike", alike)):
        print(f"gateway_{name}_{kind}\t{statistics.median(r[i] for r in rows):.6g}\t{unit}")
# Of each round, then the median: both saw the same machine.
ratio = lambda over, under, i: statistics.median(a[i] / b[i] for a, b in zip(over, under, strict=True))
print(f"gateway_urgent_p99_alike_over_classes\t{ratio(alike, classes, 1):.3f}\ttimes")
print(f"gateway_bulk_classes_over_alike\t{ratio(classes, alike, 2):.3f}\ttimes")
PY
