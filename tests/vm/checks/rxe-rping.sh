#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 400
# Reliable connections work over soft-RoCE between two processes: rping with data verified, sends and writes timed.
set -euo pipefail
# shellcheck source=../guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh

tests/vm/guest/rxe-up.sh
trap tests/vm/guest/rxe-down.sh EXIT

# -V checks each byte that comes back; 8000 bytes are more than one packet.
for size in 64 8000; do
    rxe_run_pair "rping -s -a $rxe_server -C 50 -V -S $size" \
                 "rping -c -a $rxe_server -I $rxe_client -C 50 -V -S $size"
done

# Each of the 500 messages and its answer is a packet that crosses the veth, rather than the inside of the driver.
packets=/sys/class/net/sl-rxe1/statistics/rx_packets
for tool in ib_send_lat ib_write_lat; do
    before=$(cat $packets)
    rxe_run_perftest $tool -n 500 -s 64
    crossed=$(($(cat $packets) - before))
    [ $crossed -ge 500 ] || { echo "rxe-rping: expected 500 packets on the wire, found $crossed"; exit 1; }
done
