#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 3000
# Links that go on by another transport, over RDMA: from and to queue pairs of their own, virtual connections and tcp; also
# while the cable between them is cut half way, and while the backend is killed; and listeners that are full.
set -euo pipefail
# shellcheck source=../guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh

tests/vm/guest/rxe-up.sh
trap tests/vm/guest/rxe-down.sh EXIT

key=$(mktemp)
head -c 32 /dev/urandom | base64 > "$key"
export SL_RPC_ENDPOINTS=rdma://$rxe_server:7471,rdma+ud://$rxe_server:7471,tcp://127.0.0.1:7471
export SL_RPC_KEY_FILE=$key SL_RPC_LOAD=300
SL_RPC_CUT=$(declare -f rxe_cut | tail -n +2) SL_RPC_MEND=$(declare -f rxe_mend | tail -n +2)
export SL_RPC_CUT SL_RPC_MEND
# Emulation on a busy machine is slow: give up late.
export SL_RPC_TIMEOUT_S=100 CK_TIMEOUT_MULTIPLIER=4
failed=0
for test in migrate killed full; do
    "$BUILD/tests/rpc/sdk/test_$test" || failed=1
done
exit $failed
