#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh: unmodified servers behind sluice and its peers; rows go to bench/results/servers.tsv; see run.py.
# Needs root and two cores.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export BUILD="${BUILD:-${here%/bench/servers}/build}" PYTHONDONTWRITEBYTECODE=1
python3 "$here/run.py" | python3 "$here/../record.py" servers
