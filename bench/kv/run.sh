#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: a key-value store: 95 % GET, 5 % PUT, values of 100 bytes. The client library asks the server `kv` over shared memory
# and tcp:// (TLS 1.3). gRPC's C core does the same on loopback, without TLS. Each connection has one operation in progress.
# Server on CPU 0, load on CPU 1, if there are two. The systems take turns; each figure is the median of ROUNDS (5)
# runs of SECONDS_EACH (2) seconds. Prints operations per second and median latency, and ratios to gRPC. About three minutes.
set -eu
cd "$(dirname "$0")/../.."
export BUILD="${BUILD:-$PWD/build}"
make -s all bench/kv >&2
ROUNDS=${ROUNDS:-5} T=${SECONDS_EACH:-2} CONNECTIONS=${CONNECTIONS:-"1 16 64"}
D=$(mktemp -d)
pids=()
end_all() {
	kill "${pids[@]}" 2>/dev/null || true
	rm -rf "$D"
}
trap end_all EXIT
[ "$(nproc)" -lt 2 ] && server=() load=() || { server=(taskset -c 0); load=(taskset -c 1); }
head -c 32 /dev/urandom >"$D/key"
chmod 600 "$D/key"

"${server[@]}" "$BUILD/kv" --listen "shm://$D/kv.sock,tcp://127.0.0.1:7479" --key-file "$D/key" >"$D/kv.log" 2>&1 &
pids+=($!)
"${server[@]}" "$BUILD/bench/kv/grpc" serve 127.0.0.1:7480 >"$D/grpc.log" 2>&1 &
pids+=($!)
for ((i = 0; i < 100; i++)); do
	grep -q serving "$D/kv.log" && grep -q serving "$D/grpc.log" && break
	sleep 0.1
done

measure() { # SYSTEM CONNECTIONS
	case $1 in
	shm) "${load[@]}" "$BUILD/bench/kv/call" "shm://$D/kv.sock" "$D/key" "$2" "$T" ;;
	tcp) "${load[@]}" "$BUILD/bench/kv/call" tcp://127.0.0.1:7479 "$D/key" "$2" "$T" ;;
	grpc) "${load[@]}" "$BUILD/bench/kv/grpc" call 127.0.0.1:7480 "$2" "$T" ;;
	esac
}
for ((round = 0; round < ROUNDS; round++)); do
	for count in $CONNECTIONS; do
		for system in shm tcp grpc; do
			echo "$system $count $(measure $system "$count")" >>"$D/runs"
		done
	done
done
/usr/bin/python3 - "$D/runs" <<'PY' | bench/record.py kv
import collections
import statistics
import sys

runs = collections.defaultdict(list)
for line in open(sys.argv[1], encoding="ascii"):
    system, count, *figures = line.split()
    runs[system, count].append([float(f) for f in figures])
median = {key: [statistics.median(column) for column in zip(*rows)] for key, rows in runs.items()}
for (system, count), (rate, p50, p99) in median.items():
    print(f"kv_{system}_c{count}\t{rate:.0f}\toperations/s")
    print(f"kv_{system}_c{count}_p50\t{p50:.1f}\tus")
    print(f"kv_{system}_c{count}_p99\t{p99:.1f}\tus")
for (system, count), (rate, p50, _) in median.items():
    if system != "grpc":
        print(f"kv_{system}_c{count}_over_grpc\t{rate / median['grpc', count][0]:.2f}\tratio")
        print(f"kv_{system}_c{count}_p50_over_grpc\t{p50 / median['grpc', count][1]:.2f}\tratio")
PY
