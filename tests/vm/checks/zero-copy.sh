#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: newer
# net: tap
# timeout: 300
# lane: 2
# AF_XDP sockets bind with XDP_ZEROCOPY to all queues of virtio-net, and receive what comes from the other end.
set -euo pipefail
program=$VM_REPO/build/vm/bin/xsk_zero_copy
log=/tmp/zero-copy.log

fail() { echo "zero-copy: $*"; cat "$log"; exit 1; }

# Once an XDP program is attached, virtio-net adds a queue pair per CPU to send from. The host spreads its packets over
# those as well. Two queues become four, and a packet on one without a socket goes to the kernel.
ethtool -L eth0 combined 2
"$program" eth0 4 7000 200 60 > "$log" 2>&1 &
receiver=$!
until grep -q ready "$log"; do
    kill -0 $receiver 2> /dev/null || fail "no zero-copy sockets"
    sleep 0.2
done
# Each datagram from a port of its own, so that each queue gets some.
# shellcheck disable=SC2016  # the other shell expands it
tests/vm/guest/peer bash -c 'for i in {1..200}; do echo $i > /dev/udp/10.200.0.2/7000; done'
wait $receiver || fail "not all was received, or not on each queue"
cat "$log"
