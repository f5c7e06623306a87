#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: a key-value store: 95 % GET, 5 % PUT, values of 100 bytes. The client library asks the server `kv` over shared memory
# and tcp:// (TLS 1.3); gRPC's C core does the same on loopback, without TLS. In a guest over soft-RoCE: with a queue pair for
# each client (rc), with virtual connections (ud), and gRPC over the same wire. Each connection has one operation in progress.
# Server on CPU 0, load on CPU 1, if there are two. The systems take turns; each figure is the median of ROUNDS (5)
# runs of SECONDS_EACH (2) seconds. Prints operations per second and median latency, ratios to gRPC, and how long 32 clients
# wait for their first replies that join 8. About 15 minutes. In the guest ratios mean something, times do not.
set -eu
cd "$(dirname "$0")/../.."
export BUILD="${BUILD:-$PWD/build}"
make -s all bench/kv >&2
export ROUNDS=${ROUNDS:-5} SECONDS_EACH=${SECONDS_EACH:-2} CONNECTIONS=${CONNECTIONS:-"1 16 64 512"}
rows=$(mktemp -d)
trap 'rm -rf "$rows"' EXIT
bench/kv/rounds.sh 127.0.0.1 shm tcp grpc | tee "$rows/host" >&2
tests/vm/vm run --mem 4096 --timeout 1500 -- env ROUNDS="$ROUNDS" SECONDS_EACH="$SECONDS_EACH" CONNECTIONS="$CONNECTIONS" \
	LOAD_KEYS=500 LIMIT=500 bench/kv/guest.sh | tee "$rows/guest" >&2
bench/kv/report.py "$rows/host" "$rows/guest" | bench/record.py kv
