#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [ATTACK...]: each attack of tests/netns/hostile beside an honest client at another address, alternating with no attack.
# Prints, for each attack, medians of ROUNDS rounds of the client's 99th percentiles and of their ratio, and its extremes. Needs
# root, and some six minutes for all attacks (ROUNDS=3, WINDOW=1 seconds); TIME_MAX seconds (900) are the end in any case.
set -u
bench=$(cd "$(dirname "$0")" && pwd -P)
export BUILD="${BUILD:-${bench%/bench/hostile}/build}"
make -s -C "$bench/../.." all netns-tools >&2 || exit 1
. "$bench/../../tests/netns/hostile/neighbours.sh"

hostile_arena
PYTHONPATH=$PYTHONPATH:$here/hostile cl timeout "${TIME_MAX:-900}" python3 "$bench/ratio.py" "${ROUNDS:-3}" "$G" "$@"
status=$?
admin /metrics | grep -E '^sluice_(tcp_(acks|sends)_put_off_total|front_errors_total\{.*error="(h2_flood|head_too_large)")'
gateway_stop
exit $status
