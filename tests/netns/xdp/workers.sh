#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two workers on two queues: each has its own sockets, connections, backends' channels and counters.
. "$(dirname "$0")/../lib.sh"

arena 2
backend a echo
backend b echo
gateway <<EOF
interface $GIF { queues = {0, 1} }
workers { count = 2 }
listener v4 { address = "$V4" port = 8080 }
listener v6 { address = "$V6" port = 8080 }
pool echo {
	batch { max_latency = 10s }
	backend a { endpoint = "shm://$D/a.sock" }
	backend b { endpoint = "shm://$D/b.sock" }
}
route "/echo" { pool = echo }
route "/" { respond { status = 200 body = "hello\n" } }
EOF

check "two sockets, one for each worker" eval '[ "$(grep -c "^socket $GIF queue [01]: .* worker [01]$" "$D/gw.log")" -eq 2 ]'
check_py "every connection is answered, whichever worker has it" <<'EOF'
from raw import *
for host in (V4, V6):
    cs = [Client(host) for _ in range(60)]
    for i, c in enumerate(cs):
        body = bytes([i]) * (1000 * i + 1)
        c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    for i, c in enumerate(cs):
        r = c.reply()
        expect(f"{host} {i}", (r.status, r.body), (200, bytes([i]) * (1000 * i + 1)))
EOF
same() {
	head -c 8388608 /dev/urandom >"$D/body"
	cl curl -sS -g -f --max-time 60 -o "$D/reply" --data-binary "@$D/body" "http://$1:8080/echo" && cmp "$D/body" "$D/reply"
}
check "8 MiB, IPv4" same "$V4"
check "8 MiB, IPv6" same "[$V6]"
wrk_clean() {
	cl wrk -t 2 -c "$WRK_CONNS" -d "${WRK_SECONDS}s" --timeout 10s "$@" >"$D/wrk"
	cat "$D/wrk"
	grep -q 'requests in' "$D/wrk" && ! grep -qE ' 0 requests in|Non-2xx|Socket errors' "$D/wrk"
}
check "wrk" wrk_clean "http://$V4:8080/echo"
# Speed-up from one worker to two: printed, not asserted, as it depends on the free cores more than on the gateway.
rate() { awk '/^Requests\/sec/ { print $2 }' "$1"; }
two=$(rate "$D/wrk")
both_work() {
	admin /stats | python3 -c '
import json, sys
w = json.load(sys.stdin)["workers"]
print([(x["core"]["requests"], x["tcp"]["accepted"], [b["replies"] for b in x["backends"]]) for x in w])
# Frames, connections and channels of its own: each has moved what the other has not.
sys.exit(not (len(w) == 2 and all(x["core"]["requests"] and x["tcp"]["accepted"] and x["frames"] and
    all(b["replies"] and b["slots"] for b in x["backends"]) for x in w)))'
}
own_sockets() {
	admin /stats | python3 -c '
import json, sys
w = json.load(sys.stdin)["workers"]
ports = [[(p["interface"], p["queue"]) for p in x["ports"]] for x in w]
print(ports, [[p["rx_packets"] for p in x["ports"]] for x in w])
sys.exit(not (len(set(sum(ports, []))) == 2 and all(len(p) == 1 for p in ports) and
    all(p["rx_packets"] for x in w for p in x["ports"])))'
}
check "each worker has a socket of its own, which gets packets" own_sockets
# A backend counts its peers: two channels each.
check "each backend has a channel with each worker" eval '[ "$(metric sluice_backend_up)" -eq 4 ]'
check "each worker has its share, of clients and of both backends" both_work
check "ping" cl ping -q -c 2 -i 0.2 -W 2 "$V4"

# Flows whose queue changes under way: the kernel of the client may send from another queue after every pause.
check_py "connections whose packets change queues" <<'EOF'
import os
from raw import *
cs = [Client() for _ in range(20)]
cpus = sorted(os.sched_getaffinity(0))
for turn in range(12):
    os.sched_setaffinity(0, {cpus[turn % len(cpus)]})
    for i, c in enumerate(cs):
        c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n" + bytes([turn]) * 3000)
        r = c.reply()
        expect(f"connection {i}", (r.status, r.body), (200, bytes([turn]) * 3000))
EOF
kill_backend a
check_py "a backend is lost for both workers, and nobody waits" <<'EOF'
from raw import *
for i in range(40):
    expect("GET", get(f"/echo/{i}").status, 200)
EOF
backend a echo
check "it is back for both workers" within 30 eval '[ "$(metric sluice_backend_up)" -eq 4 ]'
check_leftovers
gateway_stop
sed -i 's/^workers.*/workers { count = 1 }/' "$D/gw.conf"
gateway_start
check "wrk with one worker" wrk_clean "http://$V4:8080/echo"
one=$(rate "$D/wrk")
echo "    $NAME: $two requests/s with two workers, $one with one: $(awk "BEGIN { printf \"%.2f\", $two / $one }") times, on $(nproc) cores"
finish
