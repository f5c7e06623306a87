#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh: unmodified servers behind sluice and its peers; rows go to bench/results/servers.tsv; see run.py.
# Rows of `instructions` are from a guest: insns.sh. Needs root and two cores.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export BUILD="${BUILD:-${here%/bench/servers}/build}" PYTHONDONTWRITEBYTECODE=1
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
case ${ROWS:-} in
instructions*) ;;
*) python3 "$here/run.py" >"$rows" ;;
esac
case ${ROWS:-instructions} in
instructions*) "$here/insns.sh" >>"$rows" ;;
esac
# One head, though both print theirs.
awk 'NR == 1 || $1 != "row"' "$rows" | python3 "$here/../record.py" servers
