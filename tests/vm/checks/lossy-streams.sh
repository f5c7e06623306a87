#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 600
# lane: 2
# Streams both ways over a path that loses 1 % in each direction: what comes back is what was sent, byte by byte, and each
# has its end. HTTP/1.1 in chunks, events, another protocol by Upgrade, and gRPC, all at once.
set -euo pipefail
. tests/vm/guest/path-lib.sh

path_up 10.78.0.1 10.78.0.2
path_backend echo
path_backend chat --repeat 100 --interval-us 1000
cat > "$dir/gw.conf" << CONFIG
user = "root"
interface eth0 { }
listener v4 { address = "10.78.0.1" port = 8080 }
pool echo { backend a { endpoint = "shm://$dir/echo.sock" } }
pool chat { backend a { endpoint = "shm://$dir/chat.sock" } }
route "/echo" { pool = echo stream = yes }
route "/raw" { pool = echo stream = yes upgrade = {"raw"} upgrade_timeout = 120s }
route "/chat" { pool = chat stream = yes }
route "/sluice.demo.Echo/" { pool = echo stream = yes }
limits { send_timeout = 120s body_timeout = 120s header_timeout = 60s }
CONFIG
path_gateway
for to in $path_gw $path_cl; do path_netem "$to" delay 5ms loss 1%; done
# The distribution's Python is the one that has grpcio.
ip netns exec $path_cl timeout 240 /usr/bin/python3 tests/vm/guest/lossy_streams.py 10.78.0.1 8080 || path_fail "a stream is not what it was"
for to in $path_gw $path_cl; do
    ip netns exec $path_mid tc -s qdisc show dev "$to" | grep -i sent | tee "$dir/sent"
    grep -q 'dropped [1-9]' "$dir/sent" || path_fail "nothing was lost on the way to $to"
done
