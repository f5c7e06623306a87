#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hosts.sh ADDRESS [COMMAND...]: the key-value bench between two hosts with RDMA devices, as a table. ADDRESS is the server's,
# on its RDMA device. COMMAND runs another on that host, such as `ssh server`; without it, both ends are here. `make all bench/kv`
# has been run on both hosts, in the same folder.
#   SYSTEMS, ROUNDS, SECONDS_EACH, CONNECTIONS   see run.sh and rounds.sh
set -eu
[ $# -ge 1 ] || { sed -n '3,6s/^# //p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/../.."
export BUILD="${BUILD:-$PWD/build}" REMOTE="${*:2}"
export ROUNDS=${ROUNDS:-3} SECONDS_EACH=${SECONDS_EACH:-5} CONNECTIONS=${CONNECTIONS:-"1 16 64 512"}
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
# shellcheck disable=SC2086  # words
bench/kv/rounds.sh "$1" ${SYSTEMS:-rc ud tcp grpc} | tee "$lines" >&2
bench/kv/report.py --table "$lines"
