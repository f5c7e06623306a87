# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Checks that run programs of tests/rpc in the guest, over the devices of rxe-up.sh, source this.

rpc_key=$(mktemp)
head -c 32 /dev/urandom | base64 > "$rpc_key"
# Repetitions and long bodies are the emulator's time: `make test-rpc` runs all of them.
export SL_RPC_KEY_FILE=$rpc_key SL_RPC_LOAD=100 SL_RPC_PART=10
# Emulation on a busy machine is slow: give up late.
export SL_RPC_TIMEOUT_S=100 CK_TIMEOUT_MULTIPLIER=4
rpc_failed=0

# Each of the programs test_$1, test_$2 .., and how long it takes.
rpc_run() {
    local test start
    for test; do
        start=$SECONDS
        "$BUILD/tests/rpc/sdk/test_$test" || rpc_failed=1
        echo "$test: $((SECONDS - start)) s"
    done
}
