#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1500
# The suite of tests/rpc over RDMA by a device that has no shared receive queues, or fails to make one: each connection has
# slots of its own, and says so.
set -euo pipefail
# shellcheck source=../guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh
# shellcheck source=../guest/rpc-lib.sh
. tests/vm/guest/rpc-lib.sh

tests/vm/guest/rxe-up.sh
trap tests/vm/guest/rxe-down.sh EXIT

export SL_RPC_ENDPOINTS=rdma://$rxe_server:7471 SL_RPC_SLOTS=own
export LD_PRELOAD=$VM_REPO/build/vm/bin/no_srq.so
rpc_run basic failure load memory window stream once
NO_SRQ=unknown rpc_run memory
exit $rpc_failed
