#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh: clients on loopback: sluice on kernel sockets beside nginx; see run.py. Needs root and two cores.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export BUILD="${BUILD:-${here%/bench/local}/build}" PYTHONDONTWRITEBYTECODE=1
exec unshare -n python3 "$here/run.py" | python3 "$here/../record.py" local
