#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: makes two RDMA devices (soft-RoCE) joined by a wire. Few processes are started, as each takes a quarter of a
# second of processor time under emulation.
#
#   rxe0 on sl-rxe0, $rxe_server  <== veth ==>  sl-rxe1, $rxe_client, on rxe1
#
# rxe knows no namespaces in these kernels, so both ends live in one. Routing rules make packets from one address to the
# other cross the veth, where netem can delay or drop them. (One device would talk to itself inside the driver.) All
# traffic between the two addresses takes this way, TCP as well.
#   RXE_MTU   MTU of the veth; the RDMA MTU is the largest power of two that fits   [4200, so 4096]
#   RXE_WAYS  2: two devices more, rxe2 and rxe3, and a wire of theirs; and in the first one a switch, for rxe_port_down   [1]
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/rxe-lib.sh"
mtu=${RXE_MTU:-4200}
ways=${RXE_WAYS:-1}

# $1, $2: ends of a wire.
make_wire() { echo "link add $1 mtu $mtu type veth peer name $2 mtu $mtu"; }

# The same, with a bridge between them.
make_switched_wire() {
    make_wire "$1" sl-switch0
    make_wire "$2" sl-switch1
    echo "link add sl-switch mtu $mtu type bridge"
}

# $1: this end's interface, $2: its address, $3: the other interface, $4: its address.
make_end() {
    local hardware
    read -r hardware < "/sys/class/net/$3/address"
    echo "address add $2/32 dev $1
        link set $1 up
        neighbour add $4 lladdr $hardware dev $1
        rule add pref 10 iif $1 lookup local
        rule add pref 11 to $4 lookup $rxe_table"
    late+=("route add $4 dev $1 src $2 table $rxe_table")
}

# $1, $2: numbers of two devices, between which there is a wire, $3, $4: their addresses.
make_way() {
    make_end "sl-rxe$1" "$3" "sl-rxe$2" "$4"
    make_end "sl-rxe$2" "$4" "sl-rxe$1" "$3"
}

make_links() {
    if [ "$ways" -lt 2 ]; then make_wire sl-rxe0 sl-rxe1; else make_switched_wire sl-rxe0 sl-rxe1; fi
    [ "$ways" -lt 2 ] || make_wire sl-rxe2 sl-rxe3
}

set_links_up() {
    local line late=()
    echo "link set lo up"
    [ "$ways" -lt 2 ] || for line in sl-switch0 sl-switch1; do echo "link set $line master sl-switch up"; done
    [ "$ways" -lt 2 ] || echo "link set sl-switch up"
    make_way 0 1 "$rxe_server" "$rxe_client"
    [ "$ways" -lt 2 ] || make_way 2 3 "$rxe_server2" "$rxe_client2"
    printf '%s\n' "${late[@]}"
    # The table of local addresses comes first in a fresh kernel: ours has to be asked before it, for all but what arrives
    # on the veth. (`iif lo` in ours would not do: the RDMA connection manager looks routes up without an input interface.)
    echo "rule add pref 20 lookup local
        rule delete pref 0"
}

set_options() {
    local end
    for end in /proc/sys/net/ipv6/conf/sl-*; do
        # Without IPv6: its address would take the first GID slots, or not, depending on timing.
        echo 1 > "$end/disable_ipv6"
    done
    for end in /proc/sys/net/ipv4/conf/sl-rxe*; do
        # Packets that arrive here have a source address of this same host.
        echo 1 > "$end/accept_local"
        echo 0 > "$end/rp_filter"
    done
}

wait_active() {
    local deadline=$((SECONDS + 20)) device state
    for ((device = 0; device < 2 * ways; device++)); do
        until read -r state < /sys/class/infiniband/rxe$device/ports/1/state && [ "$state" = "4: ACTIVE" ]; do
            [ $SECONDS -lt $deadline ] || rxe_die "rxe$device did not become active: $state"
            sleep 0.1
        done
    done
}

modprobe -a rdma_rxe rdma_ucm ib_uverbs || rxe_die "cannot load the modules of soft-RoCE: is this the guest?"
make_links | ip -batch -
set_options
set_links_up | ip -batch -
for ((device = 0; device < 2 * ways; device++)); do echo "link add rxe$device type rxe netdev sl-rxe$device"; done |
    rdma -b -
wait_active
