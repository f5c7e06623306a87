#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Streams through an agent to a server of HTTP/1.1: parts both ways as they come, and ends that wait for each other.
. "$(dirname "$0")/../lib.sh"
# streams-stack.sh: the same through the worker's own TCP, with the server beyond its interface.

arena
AT=127.0.0.1:8000 TCP='' place=gw
web="endpoint = \"shm://$D/agent.sock\"" other="endpoint = \"shm://$D/other.sock\""
own="endpoint = \"http://$AT\""
if [ "${VIA:-agent}" = stack ]; then
	AT=10.99.0.2:8000 TCP='tcp { server_ports = "20000-29999" }' place=cl
	own="endpoint = \"http://$AT\" via = stack"
	web=$own other=$own
fi
"$place" /usr/bin/python3 "$here/agent/stream_server.py" "$AT" >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
# start_agent NAME [DESCRIPTORS]
start_agent() {
	in_group prlimit ${2:+--nofile="$2"} nsenter --net="/run/netns/$G" "$SLUICE" agent --listen "shm://$D/$1.sock" \
		--to "http://$AT" ${2:+--concurrency 1000} >"$D/$1.log" 2>&1 </dev/null &
	pid_of[$1]=$!
	within 30 test -S "$D/$1.sock" || say_failed "the agent does not start"
}
start_agent agent
start_agent other # its memory has not grown for another reason
start_agent few 80
gateway <<CONF
interface "$GIF" { }
$TCP
listener v4 { address = "$V4" port = 8080 }
limits { max_body = 64m send_timeout = 600s send_rate = 0 body_timeout = 600s body_rate = 0 }
memory { frames = 256m }
pool web { backend a { $web } }
pool few { backend a { endpoint = "shm://$D/few.sock" } }
route "/few" { pool = few strip_prefix = yes stream = yes }
pool other { backend a { $other } }
route "/other" { pool = other strip_prefix = yes stream = yes forward_headers = {"*"} }
route "/" { pool = web strip_prefix = no stream = yes forward_headers = {"*"} continue = backend }
pool own { backend a { $own } }
route "/own" { pool = own strip_prefix = yes }
admin { address = "127.0.0.1" port = 9900 }
CONF
[ -z "$TCP" ] || take_baseline # a reply has left the ring of the interface

for framing in chunked length; do
	check_py "parts go both ways while the request is open: $framing" "$framing" <<'PY'
from raw import *
c = Client()
chunked = sys.argv[1] == "chunked"
words = [b"part %d" % i for i in range(30)] + [b"x" * 100000]
size = sum(map(len, words))
c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\n" + (b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % size) + b"\r\n\r\n")
got, head = b"", None
for w in words:
    c.send(b"%x\r\n%s\r\n" % (len(w), w) if chunked else w)
    if head is None:  # the reply begins before the request has ended
        while b"\r\n\r\n" not in c.buf:
            c._more()
        head, c.buf = c.buf.split(b"\r\n\r\n", 1)
    part = b""
    while len(part) < len(w):
        part += c._bytes(int(c._line(), 16))
        c._line()
    expect("part", part == w, True)
if chunked:
    c.send(b"0\r\n\r\n")
expect("end", (int(c._line(), 16), c._line()), (0, b""))
expect("framing", b"x-framing: " + (b"chunked" if chunked else b"length %d" % size) in head.lower(), True)
PY
done

check_py "requests without a body have none: GET, HEAD, POST" <<'PY'
from raw import *
c = Client()
for _ in range(20):
    c.send(b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n")
    r = c.reply()
    expect("GET", (r.status, r.body, r.headers["x-framing"]), (200, b"", "length 0"))
    c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    expect("POST", c.reply().headers["x-framing"], "length 0")
PY

check_py "without a word about streams a body is passed on as it comes" <<'PY'
from raw import *
c = Client(timeout=60)
c.send(b"POST /own/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
for i in range(3):
    c.send(b"3\r\nab%d\r\n" % i)
    while b"ab%d" % i not in c.buf:
        c._more()
PY

check_py "what stands behind a body goes on behind it" <<'PY'
from raw import *
c = Client()
c.send(b"POST /trailers HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")
c.send(b"X-Sum: 17\r\nContent-Length: 5\r\nx_sum: 18\r\nsluice_client_subject: CN=admin\r\nX_Forwarded-For: 1.2.3.4\r\nsigned:\r\n\r\n")
expect("trailers", c.reply().body, b"x-sum: 17\r\nsigned: \r\n")
PY

check_py "100 (Continue) is for the server to say" <<'PY'
from raw import *
for framing in (b"Transfer-Encoding: chunked", b"Content-Length: 3"):
    c = Client()
    c.send(b"POST /asked HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + framing + b"\r\n\r\n")
    expect("100", (c._line(), c._line()), (b"HTTP/1.1 100 Continue", b""))
    c.send(b"abc" if b"3" in framing else b"3\r\nabc\r\n0\r\n\r\n")
    expect("all of it", c.reply().body, b"100-continueabc")
    c.send(b"POST /asked HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
    expect("nothing expected", c.reply().body, b"abc")
    c = Client()
    c.send(b"POST /early HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + framing + b"\r\n\r\n")
    r = c.reply()
    expect("without", (r.status, r.body, r.headers.get("connection")), (403, b"no", "close"))
    expect("and closed", c.rest(), b"")
PY

check_py "an early reply comes through while the upload goes on" <<'PY'
from raw import *
for framing in (b"Transfer-Encoding: chunked", b"Content-Length: 10000000"):
    c = Client()
    c.send(b"POST /early HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n" + b"10000\r\n%s\r\n" % (b"x" * 65536))
    r = c.reply()
    expect("early", (r.status, r.body), (403, b"no"))
    c.close()
PY

check_py "a client that leaves: the server sees it before its next ticks" <<'PY'
from raw import *
import json
import struct
seen = lambda name: json.loads(get("/seen?" + name).body)
def leave(c):
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # an end of one half may be meant so
    c.close()
for i in range(5):
    c = Client()
    c.send(b"GET /ticks?t%d HTTP/1.1\r\nHost: x\r\n\r\n" % i)
    while c.buf.count(b"tick") < 3:
        c._more()
    at = time.monotonic()
    leave(c)
    expect("seen", eventually(20, lambda: seen(f"t{i}")["gone"]), True)
    note = seen(f"t{i}")
    print("after %.2f ms, %d ticks" % ((note["gone"] - at) * 1e3, note["ticks"]))
    expect("few ticks more", note["ticks"] < 3 + 20, True)
c = Client()
c.send(b"POST /deaf?left HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000)
expect("there", eventually(20, lambda: bool(seen("left"))), True)
leave(c)
get("/wake?left")
expect("the rest never looks complete", eventually(20, lambda: seen("left")["end"]), True)
expect("broken", seen("left")["end"], "broken")
PY
[ -z "${SL_VERBOSE:-}" ] || cat "$D/out"

check_py "no more than one part is computed for a client that has left" <<'PY'
from raw import *
import json
import struct
other = Client()
def step(name, times):
    for _ in range(times):
        other.send(b"GET /step?%s HTTP/1.1\r\nHost: x\r\n\r\n" % name)
        expect("step", other.reply().status, 200)
for i in range(20):
    name = b"s%d" % i
    c = Client()
    c.send(b"GET /steps?%s HTTP/1.1\r\nHost: x\r\n\r\n" % name)
    while b"\r\n\r\n" not in c.buf:
        c._more()
    step(name, 3)
    while c.buf.count(b"part") < 3:
        c._more()
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
    step(name, 5)  # each comes to the server behind the end of that one
    other.send(b"GET /seen?%s HTTP/1.1\r\nHost: x\r\n\r\n" % name)
    note = json.loads(other.reply().body)
    expect("parts", (note["gone"], note["parts"] < 3 + 2), (True, True))
PY

check_py "who finds no descriptor for a connection waits for one, and what has begun goes on" "$D/few.log" <<'PY'
from raw import *
N = 150
waiting = [Client(timeout=60) for _ in range(N)]
for i, c in enumerate(waiting):
    c.send(b"GET /few/ticks?f%d HTTP/1.1\r\nHost: x\r\n\r\n" % i)
    c.s.setblocking(False)
def begun(clients):
    """Those that have heard their server; no stream ends."""
    for c in clients:
        try:
            c._more()
        except BlockingIOError:
            pass
    return [c for c in clients if b"tick" in c.buf]
short = ": no further connection: Too many open files"
expect("the log says why", eventually(60, lambda: short in open(sys.argv[1]).read()), True)
expect("some begin", eventually(60, lambda: begun(waiting)), True)
first = begun(waiting)
expect("not all", len(first) < 80, True)
for c in first:
    c.buf = b""
expect("they go on", eventually(60, lambda: len(begun(first)) == len(first)), True)
while waiting:
    expect("others begin when these leave", eventually(60, lambda: begun(waiting)), True)
    for c in begun(waiting):
        c.close()
        waiting.remove(c)
PY

cat >"$D/memory.py" <<'PY'
from raw import *
import os
import select
import struct
N = 100
def rss(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10
def settled(pid):
    last = rss(pid)
    while True:
        time.sleep(0.3)
        now = rss(pid)
        if abs(now - last) < 65536:
            return now
        last = now
agent = int(sys.argv[1])
def slow_clients(n):
    for _ in range(n):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(30)
        s.connect((V4, PORT))
        s.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        s.recv(100)
        socks.append(s)
def slow_servers(n):
    """Clients that send until nobody takes any more."""
    sent, poll = {}, select.poll()
    for _ in range(n):
        s = connect()
        s.sendall(b"POST /other/deaf?x HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n")
        s.setblocking(False)
        socks.append(s)
        sent[s.fileno()] = [s, 0]
        poll.register(s, select.POLLOUT)
    while found := poll.poll(1000):
        for fd, _ in found:
            sent[fd][1] += sent[fd][0].send(b"x" * 65536)
            expect("the client is stopped", sent[fd][1] < 50 << 20, True)
kind, beside = (slow_clients, "/echo") if sys.argv[2] == "client" else (slow_servers, "/other/echo")
socks = []
kind(5)
before = settled(agent)
kind(N - 5)
grown = (settled(agent) - before) // (N - 5)
print(f"{kind.__name__}: {grown} bytes of the agent's for each of {N} streams")
expect("bounded", grown < 128 << 10 or os.environ.get("SL_SANITIZED") == "1", True)  # whose own memory counts too
# As many at a time as the server is thought to stand are not kept by those that wait for others.
r = post(beside, b"beside them")
expect("others are served", (r.status, r.body), (200, b"beside them"))
for s in socks:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
PY
for slow in client server; do
	check "a slow $slow stops the other end, in bounded memory" \
		cl timeout 200 python3 "$D/memory.py" "$([ $slow = client ] && echo "${pid_of[agent]}" || echo "${pid_of[other]}")" "$slow"
	[ -z "${SL_VERBOSE:-}" ] || cat "$D/out"
done
finish
