#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: the bench over RDMA, and perftest and UCX with the same sizes, in turns; then what goes through the gateway.
# Prints rows; those that are measured several times, several times. $1: the bench's program, $2: that of UCX (bench/ucx/ucx.c).
#
# ib_send_lat tells half of a round trip, so twice that is set beside ours. Its messages have 64 bytes in all, ours have 64
# of payload, in 88; so there is a row for its messages of 88 bytes too, for soft-RoCE computes checksums of all of them.
# ib_send_bw and ib_write_bw get no reply; each of our requests does, of 64 bytes. So does each of UCX's, which go by
# reliable connections from device to device, made by the RDMA connection manager; rtt and rate do what ours do.
set -euo pipefail
cd "$VM_REPO"
# shellcheck source=../../tests/vm/guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh
bench=$1 ucx=$2
rounds=9 enough=240 # seconds: a slow machine gets fewer rounds
endpoint=rdma://$rxe_server:7480

row() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }

# Rows from perftest's line of numbers: $1 the tool, $2 the size, $3 how often; then, as often as wanted, the row's name,
# which number, times what, and its unit.
perftest() {
    local size=$2
    local -a number
    read -r -a number <<< "$(rxe_run_perftest "$1" -s "$size" -n "$3" | awk -v size="$size" '$1 == size')"
    shift 3
    while [ $# -gt 0 ]; do
        row "$1" "$(awk "BEGIN { print ${number[$2 - 1]} * $3 }")" "$4"
        shift 4
    done
}

# $1: the mode. Drops UCX's log lines.
run_ucx() {
    local settings="env UCX_TLS=rc UCX_SOCKADDR_TLS_PRIORITY=rdmacm UCX_NET_DEVICES"
    rxe_run_pair "$settings=rxe0:1 $ucx serve $rxe_server 7481" "$settings=rxe1:1 $ucx $1 $rxe_server 7481" | grep '^ucx_'
}

tests/vm/guest/rxe-up.sh > /dev/null
trap tests/vm/guest/rxe-down.sh EXIT
SL_RPC_KEY_FILE=$(mktemp)
export SL_RPC_KEY_FILE
head -c 32 /dev/urandom | base64 > "$SL_RPC_KEY_FILE"
printf '# guest: Linux %s, %s, rdma_rxe over veth\n' "$(uname -r)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"

# The host takes the processors away for a while now and then: these two need most pairs for a median that repeats.
latency_and_bulk() {
    perftest ib_send_lat 64 1000 perftest_rtt_64B_min 3 2 us perftest_rtt_64B_p50 5 2 us
    "$bench" rtt "$endpoint"
    run_ucx rtt
    perftest ib_write_bw 65536 400 perftest_write_64KiB 4 1.048576 MB/s
    "$bench" bulk "$endpoint"
}

for ((i = 0; i < rounds && SECONDS < enough; i++)); do
    latency_and_bulk
    perftest ib_send_lat 88 1000 perftest_rtt_88B_p50 5 2 us
    perftest ib_send_bw 64 5000 perftest_messages_64B 5 1000000 messages/s
    "$bench" rate "$endpoint"
    run_ucx rate
    latency_and_bulk
done
for mode in ${RPC_MODES-priority alone idle polling}; do "$bench" $mode "$endpoint"; done
bench/rpc/gateway.sh verbs
