#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 300
# Two XDP programs share one interface through libxdp's dispatcher (freplace), and both see its packets.
set -euo pipefail
bin=$VM_REPO/build/vm/bin

clean_up() {
    xdp-loader unload near --all 2> /dev/null || true
    ip link delete near 2> /dev/null || true
    ip netns delete far 2> /dev/null || true
}
trap clean_up EXIT

fail() { echo "xdp-dispatcher: $*"; xdp-loader status near; exit 1; }

# Packets that the program with map $1 has counted.
count_of() { bpftool map dump name "$1" | sed -n 's/.*"value": \([0-9]*\).*/\1/p'; }

ip netns add far
ip link add near type veth peer name veth0 netns far
ip address add 10.78.0.1/24 dev near
ip link set near up
ip -n far address add 10.78.0.2/24 dev veth0
ip -n far link set veth0 up

# One after the other, as two owners of programs would: the second has to join the first's dispatcher.
xdp-loader load -m native near "$bin/xdp_first.bpf.o"
xdp-loader load -m native near "$bin/xdp_second.bpf.o"
xdp-loader status near
[ "$(xdp-loader status near | grep -c '=>.*count_packets')" = 2 ] || fail "expected two programs in the dispatcher"

ip netns exec far ping -q -c 5 -i 0.2 -W 5 10.78.0.1
for map in xdp_first xdp_second; do
    echo "$map counted $(count_of $map)"
    [ "$(count_of $map)" -ge 5 ] || fail "expected $map to count at least 5 packets, found $(count_of $map)"
done

# One leaves, the other stays at work.
xdp-loader unload near --id "$(xdp-loader status near | awk '$1 == "=>" && $2 == 10 { print $4 }')"
before=$(count_of xdp_second)
ip netns exec far ping -q -c 5 -i 0.2 -W 5 10.78.0.1
[ "$(xdp-loader status near | grep -c '=>.*count_packets')" = 1 ] || fail "expected one program after the unload"
[ "$(count_of xdp_second)" -ge $((before + 5)) ] || fail "the second program stopped counting after the first left"
