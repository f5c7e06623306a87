# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Checks of the whole gateway with a backend behind RDMA source this after tests/netns/lib.sh and rxe-lib.sh.
#
#   client's namespace  <== veth, AF_XDP ==>  gateway on rxe1  <== RDMA ==>  echo on rxe0
#
# rxe knows the first namespace only, so the gateway stays there.

# Each try of a condition starts processes, which are the emulator's time.
export WITHIN_PAUSE=0.3
export RUN_AS=root # the backends and the gateway share its keys

gw() { "$@"; }

clean_up() {
    trap - EXIT
    exec 2> /dev/null
    for p in "${pid_of[@]}" $gateway_pid; do kill -KILL "$p"; done
    wait
    ip netns del "$C"
    ip link del "$GIF"
    tests/vm/guest/rxe-down.sh
    rm -rf "$D"
}

arena() {
    ip netns add "$C"
    ip link add "$GIF" type veth peer name "$CIF" netns "$C"
    ip addr add 10.99.0.1/24 dev "$GIF"
    ip -n "$C" addr add 10.99.0.2/24 dev "$CIF"
    ip link set "$GIF" up
    ip -n "$C" link set lo up
    ip -n "$C" link set "$CIF" up
}

gateway_spawn() {
    : > "$D/gw.log"
    "$SLUICE" run -c "$D/gw.conf" >> "$D/gw.log" 2>&1 < /dev/null &
    gateway_pid=$!
}
