#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The RPC's benches. Over shared memory here: alone, and behind the gateway (gateway.sh, which needs root). Over RDMA
# (soft-RoCE) in a guest: the same, beside perftest and UCX's active messages. Rows name<TAB>value<TAB>unit, the last lines
# `ratio NAME VALUE`. Writes bench/results/rpc.tsv.
# Arguments (MODE [ENDPOINT], see rpc.c) run that only, here, and write nothing.
set -euo pipefail # a bench that failed is not reported
root=$(cd "$(dirname "$0")/../.." && pwd)
export BUILD="${BUILD:-$root/build}"
bench=$BUILD/bench/rpc/rpc
make -s -C "$root" all bench/rpc >&2
if [ $# -gt 0 ]; then
	exec "$bench" "$@"
fi
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
for mode in rtt rate bulk idle polling priority alone; do
	"$bench" "$mode" | tee -a "$rows" >&2
done
"$root/bench/rpc/gateway.sh" | tee -a "$rows" >&2
"$root/tests/vm/vm" run --timeout 600 -- "$root/bench/rpc/guest.sh" "$bench" "$BUILD/bench/ucx/ucx" | tee -a "$rows" >&2
python3 "$root/bench/rpc/report.py" "$rows" | "$root/bench/record.py" rpc
