#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [NAME...]: builds and runs bench/micro/NAME.c, all of them by default. Each prints rows
# "name<TAB>value<TAB>unit"; they are also kept in $BUILD/bench/micro.tsv. A bench that cannot be
# built or run fails, and the others still run. What else one is built with stands in a line of its
# source: "// BENCH_LDFLAGS: ...".
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-$PWD/build}
CC=${CC:-gcc}
names=("$@")
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(basename -s .c -a bench/micro/*.c)
mkdir -p "$BUILD/bench/micro"

libs=()
for m in base wire http config xio net tcp udp front batch rpc sdk core; do
	libs+=("$BUILD/lib/libsl_$m.a")
done
make --no-print-directory -k BUILD="$BUILD" "${libs[@]}" >"$BUILD/bench/build.log" 2>&1 ||
	grep -E 'error|Error' "$BUILD/bench/build.log" | head -n 5 >&2
have=()
for l in "${libs[@]}"; do [ -e "$l" ] && have+=("$l"); done

: >"$BUILD/bench/micro.tsv"
failed=0
for n in "${names[@]}"; do
	bin=$BUILD/bench/micro/$n
	extra=$(sed -nE 's|^// BENCH_LDFLAGS: (.*)$|\1|p' "bench/micro/$n.c")
	# shellcheck disable=SC2086
	if ! "$CC" -std=gnu17 -O2 -g -D_GNU_SOURCE -fno-strict-aliasing -pthread -Wall -Wextra -Iinclude \
		-Iuser -I"$BUILD/gen" "bench/micro/$n.c" $extra -o "$bin" -Wl,--as-needed -Wl,--start-group \
		"${have[@]}" -Wl,--end-group -lconfuse -lxdp -lbpf -lelf -lz -lnghttp2 -lrdmacm -libverbs \
		-lssl -lcrypto -lIPSec_MB -ljansson -lm; then
		echo "bench: $n does not build" >&2
		failed=$((failed + 1))
		continue
	fi
	set -o pipefail
	if ! timeout 300 "$bin" | tee -a "$BUILD/bench/micro.tsv"; then
		echo "bench: $n failed" >&2
		failed=$((failed + 1))
	fi
	set +o pipefail
done
[ $failed -eq 0 ]
