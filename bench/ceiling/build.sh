#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds bench/ceiling/ceiling.c with the module libraries of $BUILD into $BUILD/bench/ceiling.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$root/build}
libs=
for m in base http config wire xio net tcp tools; do libs="$libs $BUILD/lib/libsl_$m.a"; done
# shellcheck disable=SC2086
make --no-print-directory -s -C "$root" BUILD="$BUILD" $libs
mkdir -p "$BUILD/bench/ceiling"
# shellcheck disable=SC2086
${CC:-gcc} -std=gnu17 -O2 -g -D_GNU_SOURCE -fno-strict-aliasing -pthread -Wall -Wextra -Wshadow \
	-Wconversion -Wstrict-prototypes -Wmissing-prototypes -I"$root/include" -I"$root/user" \
	-I"$BUILD/gen" "$root/bench/ceiling/ceiling.c" -o "$BUILD/bench/ceiling/ceiling" \
	-Wl,--start-group $libs -Wl,--end-group -lconfuse -lxdp -lbpf -lelf -lz -lm
