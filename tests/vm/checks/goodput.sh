#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 400
# lane: 2
# Downloads over a path that loses 1 % and takes 20 ms there and back: from the gateway's TCP, and from Linux's own with
# CUBIC at the same address, in turn. Prints both and the ratio, also into $VM_OUT/goodput.txt.
#
#   gateway 10.79.0.1 --veth-- bridge --veth-- 10.79.0.2 client     netem on both ports of the bridge: what AF_XDP sends
#                                                                   passes the queueing discipline of its own device by
set -euo pipefail
rounds=${GOODPUT_ROUNDS:-3} mib=${GOODPUT_MIB:-6}
helper=tests/vm/guest/goodput.py
dir=$(mktemp -d)
pids=()

clean_up() {
    local name
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2> /dev/null || true
    wait 2> /dev/null || true
    for name in gp-gw gp-mid gp-cl; do ip netns delete $name 2> /dev/null || true; done
    rm -rf "$dir"
}
trap clean_up EXIT

fail() { echo "goodput: $*"; tail -n 20 "$dir"/*.log; exit 1; }
# What the machine does without is built in on others.
modprobe -a sch_netem bridge veth tcp_cubic 2> /dev/null || true

# $1: namespace of an end, $2: its address. Segments travel one by one, for a loss to be one segment's.
make_end() {
    ip netns add "$1"
    ip link add eth0 netns "$1" type veth peer name "$1" netns gp-mid
    ip -n gp-mid link set "$1" master br0 up
    ip -n "$1" address add "$2/24" dev eth0
    ip -n "$1" link set lo up
    ip -n "$1" link set eth0 up
    ip netns exec "$1" ethtool -K eth0 tso off gso off gro off > /dev/null
    ip netns exec gp-mid ethtool -K "$1" tso off gso off gro off > /dev/null
    ip netns exec "$1" sysctl -qw net.ipv4.tcp_congestion_control=cubic net.ipv4.tcp_no_metrics_save=1
}
ip netns add gp-mid
ip -n gp-mid link add br0 type bridge mcast_snooping 0
ip -n gp-mid link set br0 up
make_end gp-gw 10.79.0.1
make_end gp-cl 10.79.0.2

wait_for() {
    until grep -q '^ready$' "$dir/$1.log"; do
        kill -0 "${pids[-1]}" || fail "$1 does not start"
        sleep 0.2
    done
}
"$BUILD/echo" --listen "shm://$dir/echo.sock" > "$dir/echo.log" 2>&1 &
pids+=($!)
until [ -S "$dir/echo.sock" ]; do sleep 0.1; done
cat > "$dir/gw.conf" << EOF
interface eth0 { }
listener v4 { address = "10.79.0.1" port = 8080 }
pool echo { batch { bound = 60s } backend a { endpoint = "shm://$dir/echo.sock" } }
route "/echo" { pool = echo }
limits { send_timeout = 60s }
EOF
ip netns exec gp-gw "$BUILD/sluice" run -c "$dir/gw.conf" > "$dir/gateway.log" 2>&1 &
pids+=($!)
wait_for gateway
ip netns exec gp-gw python3 $helper serve 8081 $((mib << 20)) > "$dir/linux.log" 2>&1 &
pids+=($!)
wait_for linux

# What is uploaded, to be echoed, is not timed: it is not to lose what costs time, for that is the client's TCP's.
ip netns exec gp-mid tc qdisc add dev gp-gw root netem delay 10ms limit 20000
ip netns exec gp-mid tc qdisc add dev gp-cl root netem delay 10ms loss 1% limit 20000
ip netns exec gp-cl ping -q -c 5 -i 0.3 -W 5 10.79.0.1 || true

fetch() {
    ip netns exec gp-cl timeout 150 python3 $helper fetch 10.79.0.1 "$1" $((mib << 20)) $((mib << 20)) ||
        fail "the download from port $1 failed"
}
for ((i = 0; i < rounds; i++)); do
    fetch 8080 >> "$dir/gateway.rates"
    fetch 8081 >> "$dir/linux.rates"
done
ip netns exec gp-gw curl -s http://127.0.0.1:9900/stats |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["workers"][0]["tcp"])'
ip netns exec gp-mid tc -s qdisc show dev gp-cl | grep -i sent
# Equal transfers: their mean rate is the harmonic mean of the rates.
python3 - "$dir" "$mib" << 'EOF' | tee "$VM_OUT/goodput.txt"
import statistics
import sys
rates = {who: [float(x) for x in open(f"{sys.argv[1]}/{who}.rates")] for who in ("gateway", "linux")}
mean = {who: statistics.harmonic_mean(r) for who, r in rates.items()}
for who, r in rates.items():
    print(f"goodput, 1 % loss, 20 ms: {who} {mean[who]:.2f} Mbit/s in {len(r)} downloads of {sys.argv[2]} MiB: {r}")
print(f"goodput, 1 % loss, 20 ms: ratio {mean['gateway'] / mean['linux']:.2f}")
EOF
grep -q 'ratio [0-9]' "$VM_OUT/goodput.txt"
