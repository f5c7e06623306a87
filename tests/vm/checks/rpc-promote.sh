#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1500
# lane: 2
# The suite of tests/rpc over virtual connections that go on by queue pairs of their own, and back: after 64 messages, as a
# gateway would have it, and after each one; also on a wire that loses, doubles and reorders.
set -euo pipefail
# shellcheck source=../guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh
# shellcheck source=../guest/rpc-lib.sh
. tests/vm/guest/rpc-lib.sh

tests/vm/guest/rxe-up.sh
trap tests/vm/guest/rxe-down.sh EXIT

export SL_RPC_ENDPOINTS=rdma+ud://$rxe_server:7471 SL_RPC_GOES_ON=rdma://$rxe_server:7471
# The others have no 64.
SL_RPC_MOVE_AFTER=64 rpc_run load
SL_RPC_MOVE_AFTER=1 rpc_run basic sdk failure load memory stream window
export SL_RPC_LOAD=300 SL_RPC_LOSSY=1
rxe_disturb
SL_RPC_MOVE_AFTER=64 rpc_run once
SL_RPC_MOVE_AFTER=1 rpc_run once
lost=$(rxe_count_lost)
rxe_mend
echo "the wire has lost $lost packets"
[ "$lost" -gt 0 ] || rpc_failed=1
exit $rpc_failed
