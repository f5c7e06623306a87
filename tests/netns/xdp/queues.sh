#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume
# The number of queues changes under live connections: `ethtool -L` at one end of a veth decides on which queues the other
# end receives. Half of the connections then reach the wrong worker, without effect on clients.
. "$(dirname "$0")/../lib.sh"

arena 2
backend a echo
gateway <<EOF
interface $GIF { queues = {0, 1} }
workers { count = 2 }
listener v4 { address = "$V4" port = 8080 }
listener v6 { address = "$V6" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/a.sock" } }
route "/echo" { pool = echo }
EOF

# each WORKER: packets that its queue received, segments that its TCP got, connections that it accepted.
each() {
	admin /stats | python3 -c '
import json, sys
w = json.load(sys.stdin)["workers"][int(sys.argv[1])]
print(sum(p["rx_packets"] for p in w["ports"]), w["tcp"]["segs_in"], w["tcp"]["accepted"])' "$1"
}
check_py "40 connections, 20 requests each, while queues go and come" "$CIF" <<'EOF'
import subprocess
from raw import *
cs = [Client(host) for host in (V4, V6) for _ in range(20)]
for queues in (2, 1, 2, 1):
    subprocess.run(["ethtool", "-L", sys.argv[1], "tx", str(queues)], check=True)
    for turn in range(5):
        body = bytes([turn + queues]) * 5000
        for c in cs:
            c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        for i, c in enumerate(cs):
            r = c.reply()
            expect(f"connection {i} with {queues} queues", (r.status, r.body), (200, body))
EOF
handed_over() {
	local received segments accepted
	read -r received segments accepted < <(each 1)
	echo "worker 1: $received packets received, $segments segments of $accepted connections"
	[ "$accepted" -gt 0 ] && [ "$segments" -gt $((received + accepted)) ]
}
check "segments reached a worker by way of the other" handed_over
check "none was answered by a reset" [ "$(stat_sum tcp.resets_out)" -eq 0 ]

# Bulk meanwhile.
head -c 4194304 /dev/urandom >"$D/body"
same() {
	local i
	for ((i = 0; i < 16; i++)); do
		cl curl -sS -f --max-time 60 -o "$D/reply" --data-binary "@$D/body" "http://$V4:8080/echo" &&
			cmp "$D/body" "$D/reply" || return 1
	done
}
flip() {
	while :; do
		cl ethtool -L "$CIF" tx 1
		sleep 0.1
		cl ethtool -L "$CIF" tx 2
		sleep 0.1
	done
}
flip 2>"$D/flip" &
pid_of[flip]=$!
check "64 MiB come back whole while queues go and come all the time" same
kill "${pid_of[flip]}"
wait "${pid_of[flip]}" 2>/dev/null
unset "pid_of[flip]"
check "the queues did change" [ ! -s "$D/flip" ]
check "no connection timed out" [ "$(stat_sum tcp.timeouts)" -eq 0 ]
finish
