#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Streams of backends in Python: parts both ways, gRPC, exceptions, cancels, ends that wait, SIGTERM; and the example.
. "$(dirname "$0")/../lib.sh"

arena
python_backend served backends/served_streams.py
python_backend chat ../../user/sdk/python/examples/chat.py
# The gateway itself is the server of HTTP/2 behind this one.
in_group nsenter --net="/run/netns/$C" "$SLUICE" agent --listen "shm://$D/again.sock" --to "h2c://$V4:8080" >"$D/again.log" 2>&1 </dev/null &
pid_of[again]=$!
within 30 test -S "$D/again.sock" || say_failed "the agent does not start"
gateway <<CONF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
limits { max_body = 64m send_timeout = 600s send_rate = 0 body_timeout = 600s body_rate = 0 }
memory { frames = 256m }
pool served { backend a { endpoint = "shm://$D/served.sock" } }
pool again { backend a { endpoint = "shm://$D/again.sock" } }
pool chat { backend a { endpoint = "shm://$D/chat.sock" } }
route "/" { pool = served stream = yes forward_headers = {"x-sum"} continue = backend }
route "/again" { pool = again stream = yes strip_prefix = yes forward_headers = {"*"} continue = backend }
route "/whole" { pool = served }
route "/chat" { pool = chat stream = yes }
route "/words.Chat/" { pool = chat stream = yes }
route "/t.S/" { pool = served stream = yes }
CONF

words() { [ "$(cl curl -sN --max-time 20 -d "one two three" "http://$V4:8080/chat" | grep -c '^data: ')" = 3 ]; }
check "chat.py: words come as events" words
check_py "parts go both ways while the request is open; replies of one part; whole requests beside them" <<'PY'
from raw import *
c = Client()
c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
words = [b"part %d" % i for i in range(30)] + [b"x" * 300000]
for w in words:
    c.send(b"%x\r\n%s\r\n" % (len(w), w))
    if w == words[0]:
        while b"\r\n\r\n" not in c.buf:
            c._more()
        c.buf = c.buf.split(b"\r\n\r\n", 1)[1]
    part = b""
    while len(part) < len(w):
        part += c._bytes(int(c._line(), 16))
        c._line()
    expect("part", part == w, True)
c.send(b"0\r\n\r\n")
expect("end", (int(c._line(), 16), c._line()), (0, b""))
r = post("/total", b"x" * 5000000)
expect("total", (r.status, r.body, r.headers["content-type"], r.headers["x-path"]), (200, b"5000000", "text/plain", "total"))
expect("nothing", get("/echo").body, b"")
expect("whole", post("/whole", b"x").body, b"whole")
PY
check_py "what stands behind a body comes with its end" <<'PY'
from raw import *
c = Client()
for path in (b"/trailers", b"/again/trailers"): # by HTTP/2, the second time
    c.send(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")
    c.send(b"X-Sum: 17\r\nother: 1\r\nx-sum: 18\r\n\r\n")
    expect("trailers", c.reply().body, b"[('x-sum', '17'), ('x-sum', '18')]")
for path in (b"/trailers", b"/again/trailers"):
    c.send(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
    expect("none", c.reply().body, b"[]")
PY
check_py "who waits for 100 (Continue) gets it when its backend says so" <<'PY'
from raw import *
HEAD = b" HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
for path in (b"/asked", b"/again/asked"): # by HTTP/2, the second time
    c = Client()
    c.send(b"POST " + path + HEAD + b"Expect: 100-continue\r\n\r\n")
    expect("100", (c._line(), c._line()), (b"HTTP/1.1 100 Continue", b""))
    c.send(b"body")
    expect("told", c.reply().body, b"'once'body")
    c.send(b"POST " + path + HEAD + b"\r\nbody")
    expect("not told", c.reply().body, b"Falsebody")
    c = Client()
    c.send(b"POST " + path.replace(b"asked", b"fail") + HEAD + b"Expect: 100-continue\r\n\r\n")
    r = c.reply()
    expect("500", (r.status, r.headers.get("connection")), (500, "close"))
PY
check_py "interim replies come before the reply, and what is wrong with one is said" <<'PY'
from raw import *
for path in (b"/hints", b"/again/hints"): # by HTTP/2, the second time
    c = Client()
    c.send(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    r = c.reply()
    expect("103", (r.status, r.headers.get("link"), r.headers.get("x-one")), (103, "</a.css>; rel=preload", "1"))
    expect("102", c.reply().status, 102)
    for n in range(6):
        r = c.reply()
        expect("up to eight", (r.status, r.headers.get("n")), (103, str(n)))
    r = c.reply()
    expect("200", r.status, 200)
    said = r.body.removeprefix(b"begun").decode().split("\n")
    expect("101, 200", said[:2], [f"ValueError: status {s}: expected 102 to 199" for s in (101, 200)])
    expect("by position", said[2].startswith("TypeError: reply_interim() takes"), True)
    expect("too long", said[3].startswith("ValueError: the headers are too long: expected at most "), True)
    expect("the first six", said[4:10], ["None"] * 6)
    late = "ValueError: expected before the reply has begun, and at most 8 of them"
    expect("the ninth, and a late one", said[10:], [late, late])
PY
kill "${pid_of[again]}" && wait "${pid_of[again]}"
unset "pid_of[again]"
check_py "exceptions: 500 before a reply has begun, a broken end behind that" <<'PY'
from raw import *
r = post("/fail", b"x")
expect("500", r.status, 500)
c = Client()
c.send(b"POST /break_off HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
text = c.rest()
expect("begun, not ended", (b"begun" in text, text.endswith(b"0\r\n\r\n")), (True, False))
PY
check "the log says so" grep -q "ValueError: as wanted (.*a stream is answered 500" "$D/served.log"
check_py "a client that leaves cancels its coroutine" <<'PY'
from raw import *
import struct
for i in range(3):
    c = Client()
    c.send(b"POST /hold?h%d HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" % i)
    while b"held" not in c.buf:
        c._more()
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
expect("told", eventually(20, lambda: get("/told").body.split() == [b"h0", b"h1", b"h2"]), True)
PY
check_py "a slow end stops the other one" "${pid_of[served]}" <<'PY'
from raw import *
import os, select, struct
def rss():
    for line in open(f"/proc/{sys.argv[1]}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10
before = rss()
socks, poll, sent = [], select.poll(), {}
for i in range(20):
    s = connect()
    s.sendall(b"POST /deaf?all HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n")
    s.setblocking(False)
    sent[s.fileno()] = [s, 0]
    poll.register(s, select.POLLOUT)
while found := poll.poll(1000):
    for fd, _ in found:
        sent[fd][1] += sent[fd][0].send(b"x" * 65536)
        expect("the client is stopped", sent[fd][1] < 50 << 20, True)
for i in range(20):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(30)
    s.connect((V4, PORT))
    s.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
    s.recv(100)
    socks.append(s)
expect("others are served", post("/total", b"abc").body, b"3")
grown = (rss() - before) // 40
print(f"{grown} bytes for each of 40 streams")
expect("bounded", grown < 512 << 10 or os.environ.get("SL_SANITIZED") == "1", True)  # whose own memory counts too
get("/wake?all")
for s, n in sent.values():
    s.setblocking(True)
    s.sendall(b"x" * (60000000 - n)) if s is list(sent.values())[0][0] else None
s = list(sent.values())[0][0]
s.settimeout(60)
got = b""
while not got.endswith(b"60000000"):
    more = s.recv(4096)
    expect("more", bool(more), True)
    got += more
for s in socks + [s for s, _ in sent.values()]:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
PY
[ -z "${SL_VERBOSE:-}" ] || cat "$D/out"

# The distribution's Python is the one that has grpcio.
cat >"$D/grpc_test.py" <<'PY'
import queue
import grpc
from raw import expect, eventually
channel = grpc.insecure_channel("10.99.0.1:8080", options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
q = queue.Queue()
call = channel.stream_stream("/t.S/echo")(iter(q.get, None), timeout=60)
for n in (0, 1, 70000, 3 << 20):
    q.put(b"m" * n)
    expect("echo", next(call) == b"m" * n, True)
q.put(None)
expect("end", list(call), [])
expect("code", call.code(), grpc.StatusCode.OK)
expect("words", list(channel.unary_stream("/words.Chat/Say")(b"one two", timeout=60)), [b"one", b"two"])
expect("total", channel.stream_unary("/t.S/total")((b"x" * n for n in (1, 70000, 0)), timeout=60), b"70001")
for method, code in (("fail", grpc.StatusCode.INTERNAL), ("break_off", grpc.StatusCode.INTERNAL)):
    try:
        list(channel.unary_stream("/t.S/" + method)(b"", timeout=60))
        expect(method, None, code)
    except grpc.RpcError as e:
        expect(method, e.code(), code)
PY
check "gRPC: messages of all sizes both ways, exceptions" cl timeout 200 /usr/bin/python3 "$D/grpc_test.py"

check_py "SIGTERM: what was accepted is answered, and the process ends" "${pid_of[served]}" "$D/served.log" <<'PY'
from raw import *
import os, signal
c = Client(timeout=60)
c.send(b"POST /last HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
expect("there", eventually(30, lambda: "last\n" in open(sys.argv[2]).read()), True)
os.kill(int(sys.argv[1]), signal.SIGTERM)
r = c.reply()
expect("answered", (r.status, r.body), (200, b"answered"))
PY
wait "${pid_of[served]}"
status=$?
unset "pid_of[served]"
check "with status 0" [ "$status" = 0 ]
finish
