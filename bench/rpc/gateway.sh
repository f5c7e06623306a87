#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gateway.sh [shm|verbs [ROUNDS [SECONDS]]]: latency of urgent requests (64 bytes, 500 a second) beside 1 MiB ones, four at a
# time. They pass the whole gateway to one backend over shared memory. With a class for each route, and with the same for both,
# in turns. Rows name<TAB>value<TAB>unit. A worker of the gateway has core 0; the backend and the clients share core 1. Needs
# root and two cores.
#
# verbs: the same over RDMA, with 50 urgent ones a second, in the guest, between the devices of tests/vm/guest/rxe-up.sh.
# SL_RPC_KEY_FILE names the key.
#
# Both kinds of requests are of one pool: they share its batcher, its batches, and the channel.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
BUILD=${BUILD:-$here/../../build}
transport=${1:-shm}
. "$here/../arena.sh" ug

in_gateway=(ip netns exec "$G") key=() key_line=
case $transport in
shm)
	rounds=5 seconds=2 enough=600 per_second=500 bound=1s account=nobody
	classes=shm://$D/a.sock alike=shm://$D/b.sock
	;;
verbs) # emulated: with this bound none is refused, and a slow machine gets fewer rounds
	. "$here/../../tests/vm/guest/rxe-lib.sh"
	rounds=4 seconds=4 enough=55 per_second=50 bound=10s account=root
	key=(--key-file "$SL_RPC_KEY_FILE") key_line="key_file = \"$SL_RPC_KEY_FILE\""
	classes=rdma://$rxe_server:7482 alike=rdma://$rxe_server:7483
	# rxe knows the first namespace only, so the gateway and its end of the wire are there. That end goes when the client's does.
	in_gateway=()
	ip -n "$G" link set "$G" netns 1
	ip address add 10.99.0.1/24 dev "$G"
	ip link set "$G" up
	;;
*)
	echo "gateway.sh: expected shm or verbs, found '$transport'" >&2
	exit 2
	;;
esac
rounds=${2:-$rounds} seconds=${3:-$seconds}

# In the gateway's group, which may connect.
taskset -c 1 setpriv --regid "$(id -g $account)" --clear-groups "$BUILD/echo" --listen "$classes,$alike" \
	"${key[@]}" >"$D/echo.log" 2>&1 & pids+=($!)
[ "$transport" = verbs ] || for _ in $(seq 100); do [ -S "$D/b.sock" ] && break; sleep 0.1; done
cat >"$D/gw.conf" <<CONF
user = $account
interface "$G" { }
workers { cpus = {0} }
listener web { address = "10.99.0.1" port = 8080 }
admin { port = 0 socket = none }
pool classes { batch { max_latency = $bound } backend a { endpoint = "$classes" $key_line } }
pool alike { batch { max_latency = $bound } backend a { endpoint = "$alike" $key_line } }
route "/classes/urgent" { pool = classes priority = latency max_body = 16M }
route "/classes/bulk" { pool = classes priority = bulk max_body = 16M }
route "/alike/urgent" { pool = alike priority = bulk max_body = 16M }
route "/alike/bulk" { pool = alike priority = bulk max_body = 16M }
CONF
"${in_gateway[@]}" taskset -c 0 "$BUILD/sluice" run -c "$D/gw.conf" >"$D/gw.log" 2>&1 & pids+=($!)
gateway_ready
up() { [ "$(grep -oE '(classes|alike)/a is up for worker' "$D/gw.log" | sort -u | wc -l)" = 2 ]; }
for _ in $(seq 100); do up && break; sleep 0.1; done
up || { cat "$D"/*.log >&2; exit 1; }

# A turn: "p50-us p99-us MB/s". If not all was answered, its last step says so.
turn() { # KIND
	local bulk
	ip netns exec "$C" taskset -c 1 "$BUILD/sluice" load --json --connections 4 --size 1048576 --time "${seconds}s" --warmup 200ms \
		"http://10.99.0.1:8080/$1/bulk" >"$D/bulk" & bulk=$!
	ip netns exec "$C" taskset -c 1 "$BUILD/sluice" load --json --rate "$per_second" --connections 4 --size 64 --time "${seconds}s" --warmup 200ms \
		"http://10.99.0.1:8080/$1/urgent" >"$D/urgent" || true
	wait "$bulk" || true
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
for ((i = 0; i < rounds && SECONDS < enough; i++)); do
	for kind in classes alike; do turn $kind >>"$D/rows.$kind"; done
done
python3 - "$transport" "$D/rows.classes" "$D/rows.alike" <<'PY'
import statistics
import sys
classes, alike = ([[float(v) for v in line.split()] for line in open(path, encoding="ascii")] for path in sys.argv[2:])
names = (("urgent_p50", "us"), ("urgent_p99", "us"), ("bulk_1MiB", "MB/s"))
for i, (name, unit) in enumerate(names):
    for kind, rows in (("classes", classes), ("alike", alike)):
        print(f"{sys.argv[1]}_gateway_{name}_{kind}\t{statistics.median(r[i] for r in rows):.6g}\t{unit}")
# Of each round, then the median: both saw the same machine.
ratio = lambda over, under, i: statistics.median(a[i] / b[i] for a, b in zip(over, under, strict=True))
print(f"{sys.argv[1]}_gateway_urgent_p99_alike_over_classes\t{ratio(alike, classes, 1):.3f}\ttimes")
print(f"{sys.argv[1]}_gateway_bulk_classes_over_alike\t{ratio(classes, alike, 2):.3f}\ttimes")
PY
