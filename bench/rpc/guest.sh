#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: the bench over RDMA, and perftest with the same sizes, in turns. Prints rows; those that are measured
# several times, several times. $1: the bench's program.
#
# ib_send_lat tells half of a round trip, so twice that is set beside ours. Its messages have 64 bytes in all, ours have 64
# of payload, in 112. ib_send_bw and ib_write_bw get no reply; each of our requests does, of 64 bytes.
set -euo pipefail
cd "$VM_REPO"
# shellcheck source=../../tests/vm/guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh
bench=$1
rounds=5 enough=120 # seconds: a slow machine gets fewer rounds
endpoint=rdma://$rxe_server:7480

row() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }

# From perftest's line of numbers: $1 the tool, $2 the size, $3 how often, $4 which number, $5 times what.
perftest() {
    rxe_run_perftest "$1" -s "$2" -n "$3" | awk -v size="$2" -v field="$4" -v factor="$5" '
        $1 == size { print $field * factor; exit }'
}

tests/vm/guest/rxe-up.sh > /dev/null
trap tests/vm/guest/rxe-down.sh EXIT
SL_RPC_KEY_FILE=$(mktemp)
export SL_RPC_KEY_FILE
head -c 32 /dev/urandom | base64 > "$SL_RPC_KEY_FILE"
printf '# guest: Linux %s, %s, rdma_rxe over veth\n' "$(uname -r)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"

for ((i = 0; i < rounds && SECONDS < enough; i++)); do
    row perftest_rtt_64B_p50 "$(perftest ib_send_lat 64 1000 5 2)" us
    "$bench" rtt "$endpoint"
    row perftest_messages_64B "$(perftest ib_send_bw 64 5000 5 1000000)" messages/s
    "$bench" rate "$endpoint"
    row perftest_write_64KiB "$(perftest ib_write_bw 65536 400 4 1.048576)" MB/s
    "$bench" bulk "$endpoint"
done
for mode in priority idle polling; do "$bench" $mode "$endpoint"; done
