#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: makes the RDMA device rxe0 (soft-RoCE), proves that reliable connections work over it, and prints what it has.
#
# rxe0 sits on sl-rxe0, one end of a veth pair whose other end only gives it a carrier. Both addresses are on that one end,
# so a server binds the first and a client the second, on one host and without namespaces (rxe has none in these kernels).
#   RXE_MTU  MTU of the veth; the RDMA MTU is the largest power of two that fits   [4200, so 4096]
set -euo pipefail

. "$(dirname "$0")/rxe-lib.sh"
mtu=${RXE_MTU:-4200}

make_device() {
    modprobe -a rdma_rxe rdma_ucm ib_uverbs || rxe_die "cannot load the modules of soft-RoCE: is this the guest?"
    ip link set lo up
    ip link add sl-rxe0 mtu "$mtu" type veth peer name sl-rxe1 mtu "$mtu"
    # No IPv6: its address would take the first GID slots, or not, depending on timing.
    sysctl -qw net.ipv6.conf.sl-rxe0.disable_ipv6=1 net.ipv6.conf.sl-rxe1.disable_ipv6=1
    ip address add "$rxe_server/24" dev sl-rxe0
    ip address add "$rxe_client/24" dev sl-rxe0
    ip link set sl-rxe1 up
    ip link set sl-rxe0 up
    rdma link add rxe0 type rxe netdev sl-rxe0
}

wait_active() {
    local deadline=$((SECONDS + 20))
    until rdma link show rxe0/1 | grep -q 'state ACTIVE'; do
        [ $SECONDS -lt $deadline ] || rxe_die "rxe0 did not become active: $(rdma link show rxe0/1)"
        sleep 0.1
    done
}

verify() {
    rxe_run_pair "rping -s -a $rxe_server -C 10" "rping -c -a $rxe_server -I $rxe_client -C 10" > /dev/null
    rxe_run_pair "ib_send_lat -d rxe0 -x $(rxe_gid_index $rxe_server) -n 200 -F" \
             "ib_send_lat -d rxe0 -x $(rxe_gid_index $rxe_client) -n 200 -F $rxe_server" > /dev/null
}

make_device
wait_active
verify
echo "rxe0: server $rxe_server gid $(rxe_gid_index $rxe_server), client $rxe_client gid $(rxe_gid_index $rxe_client)," \
     "$(ibv_devinfo -d rxe0 | sed -n 's/^.*active_mtu:[[:space:]]*\([0-9]*\).*/mtu \1/p')"
