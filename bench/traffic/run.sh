#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh: choice of members, failures, affinity, routing by model, limits, traces (otlp.sh); rows go to
# bench/results/traffic.tsv; see traffic.py. Needs root and two cores.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export BUILD="${BUILD:-${here%/bench/traffic}/build}" PYTHONDONTWRITEBYTECODE=1
make -s -C "$here/../.." BUILD="$BUILD" bench/stream "$BUILD/bench/micro/batch" "$BUILD/bench/micro/limits" >&2
{ python3 "$here/traffic.py" && "$here/otlp.sh"; } | python3 "$here/../record.py" traffic
