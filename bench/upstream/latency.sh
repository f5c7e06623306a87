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
out=$BUILD/bench/upstream
mkdir -p "$out" "$BUILD/bench/rpc"
make --no-print-directory -s -C "$root" BUILD="$BUILD" "$BUILD/libsluice-backend.a"
case ${CC:-gcc} in *clang*) lto= ;; *) lto=-flto=auto ;; esac
# build PROGRAM SOURCE...: as the product is linked (Makefile)
build() {
	program=$1
	shift
	# shellcheck disable=SC2086 # none or one
	${CC:-gcc} -std=gnu17 -O2 -g $lto -Wall -Wextra -D_GNU_SOURCE -I"$root/include" -I"$root/user" -pthread -o "$program" "$@" \
		"$BUILD/libsluice-backend.a" -lrdmacm -libverbs -lssl -lcrypto -lm
}
build "$out/rpc" "$root"/bench/rpc/*.c
build "$out/pingpong" "$root/bench/upstream/pingpong.c"

key=$(mktemp) rows=$(mktemp)
trap 'rm -f "$key" "$rows"' EXIT
head -c 32 /dev/urandom | base64 >"$key"
export SL_RPC_KEY_FILE="$key"
# In turns, so that both of a round see the same machine.
for _ in $(seq "${ROUNDS:-5}"); do
	"$out/pingpong" 100000 | tee -a "$rows" >&2
	for mode in hybrid rtt; do
		"$out/rpc" $mode tcp://127.77.0.1:7471 | tee -a "$rows" >&2
	done
done
"$out/rpc" rate tcp://127.77.0.1:7471 | tee -a "$rows" >&2
"$out/rpc" bulk tcp://127.77.0.1:7471 | tee -a "$rows" >&2
python3 "$root/bench/upstream/report.py" "$rows" | tee "$root/bench/results/upstream-latency.tsv"
