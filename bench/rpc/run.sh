#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The RPC's benches: rows name<TAB>value<TAB>unit, the last lines `ratio NAME VALUE`.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$root/build}
bench=$BUILD/bench/rpc/rpc
mkdir -p "$(dirname "$bench")"
make --no-print-directory -s -C "$root" BUILD="$BUILD" \
	"$BUILD/lib/libsl_rpc.a" "$BUILD/lib/libsl_backend.a" "$BUILD/lib/libsl_base.a"
${CC:-gcc} -std=gnu17 -O2 -g -D_GNU_SOURCE -I"$root/include" -I"$root/user" -pthread \
	-o "$bench" "$root/bench/rpc/rpc.c" -Wl,--start-group "$BUILD/lib/libsl_backend.a" \
	"$BUILD/lib/libsl_rpc.a" "$BUILD/lib/libsl_base.a" -Wl,--end-group \
	-lrdmacm -libverbs -lcrypto -lm
for mode in rtt rate idle priority; do
	"$bench" "$mode" "$@"
done
