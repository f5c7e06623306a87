#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [--rounds N] [--seconds N] [...]: sluice beside nginx and HAProxy; see run.py. Needs root and two cores.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export BUILD="${BUILD:-${here%/bench/peers}/build}" PYTHONDONTWRITEBYTECODE=1
make -s -C "$here/../.." all bench/peers >&2
exec python3 "$here/run.py" "$@"
