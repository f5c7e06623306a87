#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 3000
# Links that go on by another transport, over RDMA: from and to queue pairs of their own, virtual connections and tcp; also
# while the cable between them is cut half way, and while the backend is killed; and listeners that are full.
set -euo pipefail
# shellcheck source=../guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh
# shellcheck source=../guest/rpc-lib.sh
. tests/vm/guest/rpc-lib.sh

tests/vm/guest/rxe-up.sh
trap tests/vm/guest/rxe-down.sh EXIT

export SL_RPC_ENDPOINTS=rdma://$rxe_server:7471,rdma+ud://$rxe_server:7471,tcp://127.0.0.1:7471
SL_RPC_CUT=$(declare -f rxe_cut | tail -n +2) SL_RPC_MEND=$(declare -f rxe_mend | tail -n +2)
export SL_RPC_CUT SL_RPC_MEND
rpc_run migrate killed full
exit $rpc_failed
