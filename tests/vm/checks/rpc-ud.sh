#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1500
# lane: 2
# The suite of tests/rpc over virtual connections: datagrams of a queue pair that all share, on a device. Also what only a
# device shows: memory pinned by hundreds of them, a flood beside other connections, a wire that loses, duplicates and
# reorders. rpc-migrate.sh runs migrate, killed and full of the suite. The programs about single messages (liar, memory,
# score, compressed) run in `make test-rpc` over the same connections with sockets for a device.
set -euo pipefail
# shellcheck source=../guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh
# shellcheck source=../guest/rpc-lib.sh
. tests/vm/guest/rpc-lib.sh

tests/vm/guest/rxe-up.sh
trap tests/vm/guest/rxe-down.sh EXIT

export SL_RPC_ENDPOINTS=rdma+ud://$rxe_server:7471
rpc_run basic sdk failure load rest window stream silence crowd
# Its streams want more memory than the guest has.
CK_RUN_CASE=threads rpc_run threads
SL_RPC_BESIDE=rdma://$rxe_server:7471 rpc_run flood
rxe_disturb
SL_RPC_LOSSY=1 SL_RPC_LOAD=300 rpc_run once
rxe_mend
exit $rpc_failed
