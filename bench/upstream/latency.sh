#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The way to backends without RDMA. Rows name<TAB>value<TAB>unit, the last lines `ratio NAME VALUE`; they go to
# bench/results/upstream-latency.tsv.
# ROUNDS (default 5) of the round trips.
#   tcp_rpc_latency_over_netperf   64-byte round trip of the RPC over tcp:// (TLS, both ends wait as the product does) over
#                                  that of two processes that block in recv(), as netperf's TCP_RR does; loopback. netperf
#                                  is not in Debian's main: pingpong.c stands in for it.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
export BUILD="${BUILD:-$root/build}"
make -s -C "$root" bench/upstream >&2

key=$(mktemp) rows=$(mktemp)
trap 'rm -f "$key" "$rows"' EXIT
head -c 32 /dev/urandom | base64 >"$key"
export SL_RPC_KEY_FILE="$key"
# In turns, so that both of a round see the same machine.
for _ in $(seq "${ROUNDS:-5}"); do
	"$BUILD/bench/upstream/pingpong" 100000 | tee -a "$rows" >&2
	for mode in hybrid rtt; do
		"$BUILD/bench/rpc/rpc" $mode tcp://127.77.0.1:7471 | tee -a "$rows" >&2
	done
done
"$BUILD/bench/rpc/rpc" rate tcp://127.77.0.1:7471 | tee -a "$rows" >&2
"$BUILD/bench/rpc/rpc" bulk tcp://127.77.0.1:7471 | tee -a "$rows" >&2
python3 "$root/bench/upstream/report.py" "$rows" | "$root/bench/record.py" upstream-latency
