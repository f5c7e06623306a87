#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# mem: 2048
# timeout: 2000
# The suite of tests/rpc over RDMA: what shared memory passes, verbs pass.
set -euo pipefail
# shellcheck source=../guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh
# shellcheck source=../guest/rpc-lib.sh
. tests/vm/guest/rpc-lib.sh

tests/vm/guest/rxe-up.sh
trap tests/vm/guest/rxe-down.sh EXIT

export SL_RPC_ENDPOINTS=rdma://$rxe_server:7471 SL_RPC_CROWD=64
rpc_run basic client_many sdk failure liar load memory rest score verbs window stream
# Its streams want more memory than the guest has.
CK_RUN_CASE=threads rpc_run threads
exit $rpc_failed
