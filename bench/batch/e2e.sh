#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The policies end to end: load generator, gateway and the score backend in namespaces of their own; needs root.
# One gateway has a pool per policy on the same backends, so that policies take turns within seconds. See e2e.py.
#
#   ROWS (20000)  of the matrix        ROUNDS (3)        of the last comparison
#   SECONDS_EACH (2)  per row of it    SWEEP_SECONDS (1) per size and delay of the sweep
#   PATTERNS      some only            BOUND_US (67108)  the bound, a power of two of nanoseconds
batch=$(cd "$(dirname "$0")" && pwd -P)
BUILD=${BUILD:-$batch/../../build}
BUILD=$(cd "$BUILD" && pwd -P) || exit 1
# shellcheck source=tests/netns/lib.sh
. "$batch/../../tests/netns/lib.sh"
export ROWS=${ROWS:-20000} ROUNDS=${ROUNDS:-3} SECONDS_EACH=${SECONDS_EACH:-2} SWEEP_SECONDS=${SWEEP_SECONDS:-1}
export BOUND_US=${BOUND_US:-67108} PATTERNS=${PATTERNS:-} SLUICE V4 D

arena
"$BUILD/score" --make-matrix "$ROWS" --matrix "$D/matrix" --dim 256 || exit 1
"$BUILD/score" --make-matrix $((ROWS * 5 / 2)) --matrix "$D/larger" --dim 256 || exit 1
dd if="$D/matrix" of="$D/body" bs=1024 count=1 status=none
# Computing processes yield to short tasks: there may be fewer cores than processes.
score() { backend "$1" score --dim 256 "${@:2}" && renice -n 5 -p "${pid_of[$1]}" >/dev/null; }
score plain --matrix "$D/matrix"
score slow --matrix "$D/larger"
score drift --matrix "$D/matrix" --slow 70
score steps --matrix "$D/matrix" --pad 32
export DRIFT_PID=${pid_of[drift]}

NS_GATEWAY=$G NS_CLIENT=$C INTERFACE=$GIF python3 "$batch/e2e.py" config >"$D/pools" || exit 1
gateway <<CONF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
$(cat "$D/pools")
CONF
NS_GATEWAY=$G NS_CLIENT=$C python3 "$batch/e2e.py" run || failed=1
gateway_stop
exit $((failed > 0))
