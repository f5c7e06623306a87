#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [--rounds N] [--seconds N] [...]: sluice beside nginx and HAProxy; see run.py. Needs root and two cores.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$here/../../build}
export BUILD PYTHONDONTWRITEBYTECODE=1
"$here/../ceiling/build.sh"
exec python3 "$here/run.py" "$@"
