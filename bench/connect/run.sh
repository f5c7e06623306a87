#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Cost of connections over RDMA (soft-RoCE), with this tree and with the commit BEFORE, built here from the repository. Both
# take turns in the same guest. Rows name<TAB>value<TAB>unit, the last lines `ratio NAME VALUE`. Writes
# bench/results/connect.tsv. In the guest ratios mean something, times do not.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export BUILD="${BUILD:-$root/build}"
BEFORE=${BEFORE:-5b45bc2} # before what connections share was theirs together
out=$BUILD/bench/connect
make -s -C "$root" bench/connect >&2
mkdir -p "$out/before"
git -C "$root" archive "$BEFORE" | tar -x -C "$out/before"
make -s -C "$out/before" BUILD="$out/before/build" "$out/before/build/libsluice-backend.a" >&2
# Not by make: that commit's Makefile does not know this program, and ours does not know that commit's headers.
${CC:-gcc} -std=gnu17 -O2 -g -Wall -Wextra -D_GNU_SOURCE -I"$out/before/include" -I"$out/before/user" -pthread -DCONNECT_BEFORE \
	-o "$out/connect-before" "$here/connect.c" "$here/crowd.c" "$here/ends.c" "$out/before/build/libsluice-backend.a" \
	-lrdmacm -libverbs -lssl -lcrypto -lm
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
"$root/tests/vm/vm" run --mem 2048 --prealloc yes --timeout 480 -- "$here/guest.sh" "$out" | tee "$rows" >&2
python3 "$here/report.py" "$rows" | "$root/bench/record.py" connect
