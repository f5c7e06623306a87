#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Batching policies against patterns of load: in simulated time, and end to end (e2e.sh; needs root). The last lines are
# `ratio adaptive_over_best_fixed PATTERN VALUE` and `ratio adaptive_over_aimd PATTERN VALUE` of the simulation, and
# `count refused PATTERN VALUE` where backends stood still for a moment; those
# before them, whose names begin with e2e_, of the real gateway, and only as quiet as the machine.
# Writes bench/results/batch.tsv, batch-ratios.tsv and batch.svg. An argument simulates one pattern only and writes nothing.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
export BUILD="${BUILD:-$root/build}"
bench=$BUILD/bench/batch/batch
results=$root/bench/results
make -s -C "$root" all bench/batch >&2
mkdir -p "$results"
if [ $# -gt 0 ]; then
	exec "$bench" - "$1"
fi
"$bench" "$results/batch.svg" >"$bench.tsv"
{
	grep -v '^ratio \|^count ' "$bench.tsv"
	if [ "$(id -u)" -eq 0 ]; then
		"$root/bench/batch/e2e.sh"
	else
		echo "# the end-to-end patterns need root"
	fi
	grep '^ratio \|^count ' "$bench.tsv"
} | "$root/bench/record.py" batch
