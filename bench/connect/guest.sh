#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: the bench of both trees, and that of virtual connections, in turns. $1: the folder of its programs.
set -euo pipefail
cd "$VM_REPO"
# shellcheck source=../../tests/vm/guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh
rounds=5 enough=330 # seconds: a slow machine gets fewer rounds

tests/vm/guest/rxe-up.sh > /dev/null
trap tests/vm/guest/rxe-down.sh EXIT
SL_RPC_KEY_FILE=$(mktemp)
export SL_RPC_KEY_FILE
head -c 32 /dev/urandom | base64 > "$SL_RPC_KEY_FILE"
printf '# guest: Linux %s, %s, rdma_rxe over veth\n' "$(uname -r)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
for ((i = 0; i < rounds && SECONDS < enough; i++)); do
    "$1/connect-before" before "rdma://$rxe_server:7480"
    "$1/connect" connect "rdma://$rxe_server:7481"
    "$1/virtual" "$rxe_server" 7500
done
