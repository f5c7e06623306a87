#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1000
# lane: 2
# Virtual connections, datagrams of one queue pair that all share, over a device. All of the suite of tests/rpc runs over them
# in `make test`, on datagrams of UDP that get lost; here it is what the device does: queue pairs, memory, completions.
set -euo pipefail
# shellcheck source=../guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh

tests/vm/guest/rxe-up.sh
trap tests/vm/guest/rxe-down.sh EXIT

key=$(mktemp)
head -c 32 /dev/urandom | base64 > "$key"
export SL_RPC_ENDPOINTS=rdma+ud://$rxe_server:7471 SL_RPC_KEY_FILE=$key SL_RPC_LOAD=100
# Emulation on a busy machine is slow: give up late.
export SL_RPC_TIMEOUT_S=100 CK_TIMEOUT_MULTIPLIER=4
failed=0
for test in basic memory stream; do
    "$BUILD/tests/rpc/sdk/test_$test" || failed=1
done
exit $failed
