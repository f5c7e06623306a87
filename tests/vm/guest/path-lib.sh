# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Checks of a gateway behind a path with delay and loss source this.
#
#   gateway, in $path_gw --veth-- bridge --veth-- client, in $path_cl      netem on both ports of the bridge: AF_XDP bypasses
#                                                                          the queueing discipline of its own device

path_gw=path-gw path_cl=path-cl path_mid=path-mid
pids=()
dir=$(mktemp -d)

path_down() {
    local name
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2> /dev/null || true
    wait 2> /dev/null || true
    for name in $path_gw $path_mid $path_cl; do ip netns delete $name 2> /dev/null || true; done
    rm -rf "$dir"
}

path_fail() { echo "$*"; tail -n 20 "$dir"/*.log; exit 1; }

# $1: namespace of an end, $2: its address. Segments travel one by one, for a loss to be one segment's.
path_end() {
    ip netns add "$1"
    ip link add eth0 netns "$1" type veth peer name "$1" netns $path_mid
    ip -n $path_mid link set "$1" master br0 up
    ip -n "$1" address add "$2/24" dev eth0
    ip -n "$1" link set lo up
    ip -n "$1" link set eth0 up
    ip netns exec "$1" ethtool -K eth0 tso off gso off gro off > /dev/null
    ip netns exec $path_mid ethtool -K "$1" tso off gso off gro off > /dev/null
    ip netns exec "$1" sysctl -qw net.ipv4.tcp_congestion_control=cubic net.ipv4.tcp_no_metrics_save=1
}

# $1: the gateway's address, $2: the client's.
path_up() {
    trap path_down EXIT
    # Modules that this machine lacks are built in on others.
    modprobe -a sch_netem bridge veth tcp_cubic 2> /dev/null || true
    ip netns add $path_mid
    ip -n $path_mid link add br0 type bridge mcast_snooping 0
    ip -n $path_mid link set br0 up
    path_end $path_gw "$1"
    path_end $path_cl "$2"
}

# $1: the namespace that packets are on their way to, the rest: what happens to them.
path_netem() { ip netns exec $path_mid tc qdisc add dev "$1" root netem "${@:2}" limit 20000; }

# $1: a log in which the last one started says that it is ready.
path_ready() {
    until grep -q '^ready$' "$dir/$1.log"; do
        kill -0 "${pids[-1]}" || path_fail "$1 does not start"
        sleep 0.2
    done
}

# $1: a program of $BUILD, on $dir/$1.sock; the rest: its options.
path_backend() {
    "$BUILD/$1" --listen "shm://$dir/$1.sock" "${@:2}" > "$dir/$1.log" 2>&1 &
    pids+=($!)
    until [ -S "$dir/$1.sock" ]; do sleep 0.1; done
}

# On the configuration $dir/gw.conf.
path_gateway() {
    ip netns exec $path_gw "$BUILD/sluice" run -c "$dir/gw.conf" > "$dir/gateway.log" 2>&1 &
    pids+=($!)
    path_ready gateway
}
