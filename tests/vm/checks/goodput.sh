#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1200
# lane: 2
# Downloads over a path that loses 1 % and takes 20 ms there and back: from the gateway's TCP, and from Linux's own with
# CUBIC at the same address, in turn. Prints both and the ratio, also into $VM_OUT/goodput.txt.
set -euo pipefail
. tests/vm/guest/path-lib.sh
rounds=${GOODPUT_ROUNDS:-1} mib=${GOODPUT_MIB:-4}
helper=tests/vm/guest/goodput.py

path_up 10.79.0.1 10.79.0.2
path_backend echo
cat > "$dir/gw.conf" << CONFIG
user = "root"
interface eth0 { }
listener v4 { address = "10.79.0.1" port = 8080 }
pool echo { batch { max_latency = 60s } backend a { endpoint = "shm://$dir/echo.sock" } }
route "/echo" { pool = echo }
limits { send_timeout = 60s }
CONFIG
path_gateway
ip netns exec $path_gw python3 $helper serve 8081 $((mib << 20)) > "$dir/linux.log" 2>&1 &
pids+=($!)
path_ready linux

# What is uploaded, to be echoed, is not timed: it is not to lose what costs time, for that is the client's TCP's.
path_netem $path_gw delay 10ms
path_netem $path_cl delay 10ms loss 1%
ip netns exec $path_cl ping -q -c 5 -i 0.3 -W 5 10.79.0.1 || true

fetch() {
    ip netns exec $path_cl timeout 150 python3 $helper fetch 10.79.0.1 "$1" $((mib << 20)) $((mib << 20)) ||
        path_fail "the download from port $1 failed"
}
for ((i = 0; i < rounds; i++)); do
    fetch 8080 >> "$dir/gateway.rates"
    fetch 8081 >> "$dir/linux.rates"
done
ip netns exec $path_gw curl -s http://127.0.0.1:9900/stats |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["workers"][0]["tcp"])'
ip netns exec $path_mid tc -s qdisc show dev $path_cl | grep -i sent
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
