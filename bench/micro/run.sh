#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [NAME...]: builds and runs bench/micro/NAME.c, all of them by default. Each prints rows
# "name<TAB>value<TAB>unit"; they are also kept in $BUILD/bench/micro.tsv. A bench that cannot be
# built or run fails, and the others still run.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
export BUILD="${BUILD:-$PWD/build}"
names=("$@")
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(basename -s .c -a bench/micro/*.c)

mkdir -p "$BUILD/bench"
: >"$BUILD/bench/micro.tsv"
failed=0
for n in "${names[@]}"; do
	if ! make -s BUILD="$BUILD" "$BUILD/bench/micro/$n" >&2; then
		echo "bench: $n does not build" >&2
		failed=$((failed + 1))
	elif ! timeout 300 "$BUILD/bench/micro/$n" | tee -a "$BUILD/bench/micro.tsv"; then
		echo "bench: $n failed" >&2
		failed=$((failed + 1))
	fi
done
[ $failed -eq 0 ]
