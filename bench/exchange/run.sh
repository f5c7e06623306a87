#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: parameter exchange of four workers with a parameter server, see exchange.c: with a class for each kind of message, and
# as one FIFO, in turns. Over shared memory and tcp:// by the client library, and by HTTP/1.1 over a gateway on kernel sockets.
# Computing takes as long as an iteration without it. Prints medians of ROUNDS (2) runs of SECONDS_EACH (4) seconds, and their
# ratios. About two minutes.
set -eu
cd "$(dirname "$0")/../.."
export BUILD="${BUILD:-$PWD/build}"
make -s all bench/exchange >&2
ROUNDS=${ROUNDS:-2} T=${SECONDS_EACH:-4} SYSTEMS=${SYSTEMS:-shm tcp gateway}
D=$(mktemp -d)
pids=()
end_all() {
	kill "${pids[@]}" 2>/dev/null || true
	wait
	rm -rf "$D"
}
trap end_all EXIT
head -c 32 /dev/urandom >"$D/key"
chmod 600 "$D/key"
"$BUILD/bench/exchange/exchange" serve "shm://$D/s.sock,tcp://127.0.0.1:7489" "$D/key" >"$D/server.log" 2>&1 &
pids+=($!)
cat >"$D/gw.conf" <<CONF
user = $(id -un)
admin { port = 0 socket = none }
memory { frames = 1g }
limits { max_body = 64m address_exchanges = 1 address_reading = 1 address_frames = 1 }
listener web { address = "127.0.0.1" port = 8489 }
pool p { batch { policy = direct } backend a { endpoint = "shm://$D/s.sock" } }
route "/latency" { pool = p priority = latency strip_prefix = no }
route "/normal" { pool = p strip_prefix = no }
route "/bulk" { pool = p priority = bulk strip_prefix = no }
CONF
"$BUILD/sluice" run -c "$D/gw.conf" >"$D/gw.log" 2>&1 &
pids+=($!)
for ((i = 0; i < 600; i++)); do
	grep -q serving "$D/server.log" && grep -q '^ready$' "$D/gw.log" && break
	kill -0 "${pids[@]}" || { cat "$D"/*.log >&2; exit 1; }
	sleep 0.1
done

measure() { # SYSTEM classes|fifo COMPUTE_US
	local target
	case $1 in
	shm) target=shm://$D/s.sock ;;
	tcp) target=tcp://127.0.0.1:7489 ;;
	gateway) target=http:127.0.0.1:8489 ;;
	esac
	timeout 60 "$BUILD/bench/exchange/exchange" run "$target" "$D/key" "$2" "$T" "$3"
}
for system in $SYSTEMS; do
	transfer=$(measure "$system" fifo 0 | cut -d' ' -f1) # ms
	for ((round = 0; round < ROUNDS; round++)); do
		for kind in classes fifo; do
			echo "$system $kind $(measure "$system" $kind "${transfer%.*}000")" >>"$D/runs"
		done
	done
done
/usr/bin/python3 - "$D/runs" <<'PY' | bench/record.py exchange
import collections
import statistics
import sys

runs = collections.defaultdict(list)
for line in open(sys.argv[1], encoding="ascii"):
    system, kind, *figures = line.split()
    runs[system, kind].append([float(f) for f in figures])
median = {key: [statistics.median(column) for column in zip(*rows)] for key, rows in runs.items()}
NAMES = (("iteration", "ms"), ("control_p50", "us"), ("control_p99", "us"), ("bytes", "MB/s"))
for (system, kind), values in median.items():
    for (name, unit), value in zip(NAMES, values):
        print(f"exchange_{system}_{name}_{kind}\t{value:.6g}\t{unit}")
for system in dict.fromkeys(system for system, _ in median):
    for at, name in ((0, "iteration"), (2, "control_p99")):
        ratio = median[system, "classes"][at] / median[system, "fifo"][at]
        print(f"exchange_{system}_{name}_classes_over_fifo\t{ratio:.3f}\tratio")
PY
