#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What connections cost, over RDMA (soft-RoCE) in a guest: with this tree, and with the commit BEFORE, built here from the
# repository, in turns in the same guest. Rows name<TAB>value<TAB>unit, the last lines `ratio NAME VALUE`. Writes
# bench/results/connect.tsv. In the guest ratios mean something, times do not.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
export BUILD="${BUILD:-$root/build}"
BEFORE=${BEFORE:-5b45bc2} # before what connections share was theirs together
out=$BUILD/bench/connect
mkdir -p "$out/before"

# $1: a tree, $2: its build folder, $3: the program, behind them what its compiler is told.
build() {
	tree=$1 dir=$2 program=$3
	shift 3
	make --no-print-directory -s -C "$tree" BUILD="$dir" "$dir/libsluice-backend.a"
	${CC:-gcc} -std=gnu17 -O2 -g -Wall -Wextra -D_GNU_SOURCE -I"$tree/include" -I"$tree/user" -pthread "$@" \
		-o "$program" "$root/bench/connect/connect.c" "$dir/libsluice-backend.a" \
		-lrdmacm -libverbs -lssl -lcrypto -lm
}

git -C "$root" archive "$BEFORE" | tar -x -C "$out/before"
build "$out/before" "$out/before/build" "$out/connect-before" -DCONNECT_BEFORE
build "$root" "$BUILD" "$out/connect"
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
"$root/tests/vm/vm" run --mem 2048 --timeout 420 -- "$root/bench/connect/guest.sh" "$out" | tee "$rows" >&2
python3 "$root/bench/connect/report.py" "$rows" | tee "$root/bench/results/connect.tsv"
