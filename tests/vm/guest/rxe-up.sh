#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: makes two RDMA devices (soft-RoCE) joined by a wire, proves that reliable connections work over it, and
# prints their properties.
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

# $1: this end's interface, $2: its address.
make_end() {
    # Without IPv6: its address would take the first GID slots, or not, depending on timing.
    sysctl -qw "net.ipv6.conf.$1.disable_ipv6=1"
    # Packets that arrive here have a source address of this same host.
    sysctl -qw "net.ipv4.conf.$1.accept_local=1" "net.ipv4.conf.$1.rp_filter=0"
    ip address add "$2/32" dev "$1"
    ip link set "$1" up
}

# $1: source interface, $2: source address, $3: destination interface, $4: destination address.
make_route() {
    ip route add "$4" dev "$1" src "$2" table "$rxe_table"
    ip neighbour add "$4" lladdr "$(cat "/sys/class/net/$3/address")" dev "$1"
    ip rule add pref 10 iif "$1" lookup local
    ip rule add pref 11 to "$4" lookup "$rxe_table"
}

# $1, $2: ends of a wire.
make_wire() { ip link add "$1" mtu "$mtu" type veth peer name "$2" mtu "$mtu"; }

# The same, with a bridge between them.
make_switched_wire() {
    local port
    make_wire "$1" sl-switch0
    make_wire "$2" sl-switch1
    ip link add sl-switch mtu "$mtu" type bridge
    for port in sl-switch0 sl-switch1 sl-switch; do
        sysctl -qw "net.ipv6.conf.$port.disable_ipv6=1"
        [ $port = sl-switch ] || ip link set $port master sl-switch
        ip link set $port up
    done
}

# $1, $2: numbers of two devices, between which there is a wire, $3, $4: their addresses.
make_way() {
    make_end "sl-rxe$1" "$3"
    make_end "sl-rxe$2" "$4"
    make_route "sl-rxe$2" "$4" "sl-rxe$1" "$3"
    make_route "sl-rxe$1" "$3" "sl-rxe$2" "$4"
    rdma link add "rxe$1" type rxe netdev "sl-rxe$1"
    rdma link add "rxe$2" type rxe netdev "sl-rxe$2"
}

make_devices() {
    modprobe -a rdma_rxe rdma_ucm ib_uverbs || rxe_die "cannot load the modules of soft-RoCE: is this the guest?"
    ip link set lo up
    if [ "$ways" -lt 2 ]; then make_wire sl-rxe0 sl-rxe1; else make_switched_wire sl-rxe0 sl-rxe1; fi
    make_way 0 1 "$rxe_server" "$rxe_client"
    [ "$ways" -lt 2 ] || { make_wire sl-rxe2 sl-rxe3; make_way 2 3 "$rxe_server2" "$rxe_client2"; }
    # The table of local addresses comes first in a fresh kernel: ours has to be asked before it, for all but what arrives
    # on the veth. (`iif lo` in ours would not do: the RDMA connection manager looks routes up without an input interface.)
    ip rule add pref 20 lookup local
    ip rule delete pref 0
}

wait_active() {
    local deadline=$((SECONDS + 20)) device
    for device in $(seq -f 'rxe%g' 0 $((2 * ways - 1))); do
        until rdma link show $device/1 | grep -q 'state ACTIVE'; do
            [ $SECONDS -lt $deadline ] || rxe_die "did not become active: $(rdma link show $device/1)"
            sleep 0.1
        done
    done
}

# Once for each machine: what follows finds the same kernel, and emulated it takes seconds.
verify() {
    [ ! -e /run/rxe-verified ] || return 0
    rxe_run_pair "rping -s -a $rxe_server -C 10" "rping -c -a $rxe_server -I $rxe_client -C 10" > /dev/null
    rxe_run_perftest ib_send_lat -n 200 > /dev/null
    touch /run/rxe-verified
}

describe() {
    echo "$1: $2, gid $(rxe_gid_index "$1" "$2")," \
         "$(ibv_devinfo -d "$1" | sed -n 's/^.*active_mtu:[[:space:]]*\([0-9]*\).*/mtu \1/p')"
}

make_devices
wait_active
verify
describe rxe0 "$rxe_server"
describe rxe1 "$rxe_client"
