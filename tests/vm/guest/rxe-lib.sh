# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Scripts in the guest that use the devices of rxe-up.sh source this.

# The server's address is on rxe0, the client's on rxe1.
rxe_server=10.77.0.1
rxe_client=10.77.0.2
# The second pair of devices, if RXE_WAYS is 2: rxe2 and rxe3.
# shellcheck disable=SC2034  # used by rxe-up.sh and checks
rxe_server2=10.77.1.1 rxe_client2=10.77.1.2
# Routing table of the wires between them.
# shellcheck disable=SC2034  # used by rxe-up.sh and rxe-down.sh
rxe_table=77

rxe_die() { echo "rxe: $*" >&2; exit 1; }

# Index of the RoCE v2 GID of device $1 that holds the IPv4 address $2.
rxe_gid_index() {
    local gid
    # shellcheck disable=SC2086  # four words
    gid=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' ${2//./ })
    grep -lx "$gid" /sys/class/infiniband/"$1"/ports/1/gids/* | sed 's/.*\///' | sort -n | head -n 1
}

# Gives the address $2 of device $1 another index in its GID table: another address takes the one that becomes free.
rxe_renumber() {
    local end=sl-$1 peer=$rxe_server
    [ "$2" != "$rxe_server" ] || peer=$rxe_client
    ip -batch - << BATCH
address delete $2/32 dev $end
address add 10.77.9.9/32 dev $end
address add $2/32 dev $end
route replace $peer dev $end src $2 table $rxe_table
BATCH
}

# Cuts the wire where no device sees it, as behind a switch, and joins it again.
rxe_cut() {
    tc qdisc replace dev sl-rxe0 root netem loss 100%
    tc qdisc replace dev sl-rxe1 root netem loss 100%
}
rxe_mend() {
    tc qdisc delete dev sl-rxe0 root
    tc qdisc delete dev sl-rxe1 root
}

# Takes the ports of rxe0 and rxe1 down, which the devices report, and up again; for RXE_WAYS=2. The switch takes their carrier
# away. Taking the interface itself down would stop all sending, and soft-RoCE would give up queue pairs, also the connection
# manager's: no connection could be made any more (seen with Linux 6.1).
rxe_port_down() { ip link set sl-switch0 down; ip link set sl-switch1 down; }
rxe_port_up() { ip link set sl-switch0 up; ip link set sl-switch1 up; }

# Loses, doubles and reorders, both ways, until rxe_mend.
rxe_disturb() {
    local device
    for device in sl-rxe0 sl-rxe1; do
        tc qdisc replace dev $device root netem delay 1ms loss 2% duplicate 2% reorder 90%
    done
}
# Packets that the wire has lost by that.
rxe_count_lost() { tc -s qdisc show | sed -n 's/^.*(dropped \([0-9]*\),.*/\1/p' | awk '{ n += $1 } END { print n + 0 }'; }

# $1: the server's command, $2: the client's. The client is started anew until the server listens.
# Each is given RXE_LIMIT seconds [120].
rxe_run_pair() {
    local server_pid deadline=$((SECONDS + ${RXE_LIMIT:-120})) log
    log=$(mktemp)
    # shellcheck disable=SC2086  # commands, to be split
    timeout "${RXE_LIMIT:-120}" $1 > "$log.server" 2>&1 &
    server_pid=$!
    # shellcheck disable=SC2086
    until timeout "${RXE_LIMIT:-120}" $2 > "$log.client" 2>&1; do
        if [ $SECONDS -ge $deadline ] || ! kill -0 $server_pid 2> /dev/null; then
            kill $server_pid 2> /dev/null || true
            cat "$log.server" "$log.client" >&2
            rxe_die "failed: $2"
        fi
        sleep 0.2
    done
    wait $server_pid || rxe_die "the server failed: $1"
    cat "$log.client"
    rm -f "$log"*
}

# $1: a perftest tool, the rest: its options. Runs it between the two devices.
rxe_run_perftest() {
    rxe_run_pair "$* -F -d rxe0 -x $(rxe_gid_index rxe0 "$rxe_server")" \
                 "$* -F -d rxe1 -x $(rxe_gid_index rxe1 "$rxe_client") $rxe_server"
}
