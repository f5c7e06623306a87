#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1800
# The suite of tests/rpc over RDMA: what shared memory passes, verbs pass.
set -euo pipefail
# shellcheck source=../guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh

tests/vm/guest/rxe-up.sh
trap tests/vm/guest/rxe-down.sh EXIT

key=$(mktemp)
head -c 32 /dev/urandom | base64 > "$key"
export SL_RPC_ENDPOINTS=rdma://$rxe_server:7471 SL_RPC_KEY_FILE=$key SL_RPC_LOAD=100
# Emulation on a busy machine is slow: give up late.
export SL_RPC_TIMEOUT_S=100 CK_TIMEOUT_MULTIPLIER=4
failed=0
for test in basic sdk failure liar load memory rest score verbs window stream; do
    "$BUILD/tests/rpc/sdk/test_$test" || failed=1
done
# Its streams want more memory than the guest has.
CK_RUN_CASE=threads "$BUILD/tests/rpc/sdk/test_threads" || failed=1
exit $failed
