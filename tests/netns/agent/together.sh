#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How many requests a server gets at a time (`concurrency`), and what becomes of those that wait for their turn: urgent ones
# overtake, those whose client leaves or whose time is over never reach it.
. "$(dirname "$0")/../lib.sh"

arena
for port in 8000 8001; do
	gw /usr/bin/python3 "$here/agent/server.py" 127.0.0.1:$port >"$D/server$port.log" 2>&1 </dev/null &
	pid_of[server$port]=$!
done
gw node "$here/agent/h2_server.js" 8002 >"$D/server8002.log" 2>&1 </dev/null &
pid_of[server8002]=$!
for port in 8000 8001 8002; do
	within 30 grep -qs listening "$D/server$port.log" || { cp "$D/server$port.log" "$D/out"; say_failed "the server does not start"; }
done
gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
pool five { backend a { endpoint = "http://127.0.0.1:8000" concurrency = 5 } }
pool one { backend a { endpoint = "http://127.0.0.1:8001" concurrency = 1 } }
pool h2 { backend a { endpoint = "h2c://127.0.0.1:8002" concurrency = 5 } }
pool look { backend a { endpoint = "http://127.0.0.1:8000" } }
pool look1 { backend a { endpoint = "http://127.0.0.1:8001" } }
pool look2 { backend a { endpoint = "h2c://127.0.0.1:8002" } }
route "/five" { pool = five strip_prefix = yes }
route "/stream" { pool = five strip_prefix = yes stream = yes }
route "/h2" { pool = h2 strip_prefix = yes }
route "/h2-stream" { pool = h2 strip_prefix = yes stream = yes }
route "/bulk" { pool = one strip_prefix = yes priority = bulk }
route "/urgent" { pool = one strip_prefix = yes priority = latency }
route "/urgent-stream" { pool = one strip_prefix = yes priority = latency stream = yes }
route "/soon" { pool = one strip_prefix = yes deadline = 2s }
route "/late" { pool = look strip_prefix = yes deadline = 300ms }
route "/late-stream" { pool = look strip_prefix = yes deadline = 300ms stream = yes }
route "/look" { pool = look strip_prefix = yes }
route "/look1" { pool = look1 strip_prefix = yes }
route "/look2" { pool = look2 strip_prefix = yes }
admin { address = "127.0.0.1" port = 9900 }
CONF

cat >"$D/fifty.py" <<'PY'
from raw import *
import threading
bad = []
def one(i, paths, seconds):
    for n in range(5):
        r = post(f"{paths[(i + n) % len(paths)]}/slow?{seconds}", b"x" * 1000)
        if (r.status, r.body) != (200, b"slow"):
            bad.append(r)
def fifty(paths, seconds):
    threads = [threading.Thread(target=one, args=(i, paths, seconds)) for i in range(50)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    expect("bad", bad, [])
PY
# The one that looks has a connection of its own.
check_py "50 clients, whole requests and streams: five requests and connections at a time, never more" <<'PY'
from fifty import *
fifty(("/five", "/stream"), "0.03")
expect("at a time", get("/look/most").body, b"5 6")
PY
check_py "the same by HTTP/2, on one connection" <<'PY'
from fifty import *
fifty(("/h2", "/h2-stream"), "30")
# Before it serves, each server was tried on a connection of its own.
expect("at a time", get("/look2/most").body, b"5 4")
PY

cat >"$D/kept.py" <<'PY'
from raw import *
import os, threading
order = []
def asked(path, name, method="POST"):
    """One that is on its way, and in `order` once it is answered."""
    def run():
        r = ask(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx".encode())
        order.append(name if r.status == 200 else f"{name}: {r.status}")
    t = threading.Thread(target=run)
    t.start()
    return t
def seen(path):
    return int(get("/look1/count?" + path).body)
def told(name):
    expect("told: " + name, eventually(40, lambda: os.path.exists(f"{sys.argv[1]}/{name}")), True)
def let_first_go():
    expect("let go", get("/look1/next-event").status, 200)
PY
# So many wait in the agent.
one_waits() { admin /metrics | grep -qE "^sluice_server_waiting\{agent=\"0\",server=\"one/a\"\} $1\$"; }
urgent_first() {
	cl timeout 100 python3 - "$D" <<'PY' &
from kept import *
threads = [asked("/bulk/held", "first")]
expect("it has the server", eventually(20, lambda: seen("/held") == 1), True)
threads += [asked("/bulk/slow-bulk?0.05", "bulk") for i in range(5)]
told("five")
threads += [asked("/urgent-stream/slow-stream?0.05", "stream"), asked("/urgent/slow-whole?0.05", "whole")]
told("seven")
let_first_go()
[t.join() for t in threads]
expect("answered", sorted(order), ["bulk"] * 5 + ["first", "stream", "whole"])
seen_by_server = get("/look1/order-of-slow").body.decode().split()
expect("order", (sorted(seen_by_server[:2]), seen_by_server[2:]), (["/slow-stream", "/slow-whole"], ["/slow-bulk"] * 5))
PY
	local client=$!
	within 30 one_waits 5 && touch "$D/five"
	within 30 one_waits 7 && touch "$D/seven"
	wait $client
}
export PYTHONPATH=$D:$PYTHONPATH
check "what is urgent, whole or as a stream, overtakes what waits" urgent_first

cancelled() {
	cl timeout 100 python3 - "$D" <<'PY' &
from kept import *
import socket, struct
first = asked("/bulk/held", "first")
expect("it has the server", eventually(20, lambda: seen("/held") == 2), True)
gone = [Client(), Client()]
gone[0].send(b"POST /bulk/slow-left?0 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
gone[1].send(b"POST /urgent-stream/slow-left?0 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
late = asked("/soon/slow-late?0", "late")
told("waiting")
for c in gone:
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
late.join()
told("left")
let_first_go()
first.join()
last = asked("/bulk/slow-last?0", "last")
last.join()
expect("order", order, ["late: 504", "first", "last"])
expect("seen", (seen("/slow-left"), seen("/slow-late"), seen("/slow-last")), (0, 0, 1))
PY
	local client=$!
	within 30 one_waits '[23]' && touch "$D/waiting"
	within 30 one_waits 0 && touch "$D/left"
	wait $client
}
check "who waits there and leaves, or is late, never reaches the server" cancelled

check_py "a deadline: 504, and the server's connection closes at once" <<'PY'
from raw import *
for path in ("/late", "/late-stream"):
    began = time.monotonic()
    r = get(f"{path}/wait/{path[1:]}")
    expect(path, r.status, 504)
    expect("the server is told", eventually(20, lambda: get(f"/look/gone?/wait/{path[1:]}").body != b""), True)
    took = float(get(f"/look/gone?/wait/{path[1:]}").body) - began
    expect(f"when: {took:.3f} s", took > 0.29, True)
PY
finish
