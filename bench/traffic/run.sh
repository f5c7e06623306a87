#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: what limits of clients cost a request. Rows "name<TAB>value<TAB>unit"; kept in $BUILD/bench/traffic.tsv.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
export BUILD="${BUILD:-$PWD/build}"
mkdir -p "$BUILD/bench"
make -s BUILD="$BUILD" "$BUILD/bench/micro/limits" >&2 || exit 1
timeout 300 "$BUILD/bench/micro/limits" | tee "$BUILD/bench/traffic.tsv"
