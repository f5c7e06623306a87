#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients that stall, half-close, reset or send garbage cost bounded memory and disturb no others.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 half_close = answer }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
route "/" { respond { status = 200 body = "hello\n" } }
limits { header_timeout = 2s body_timeout = 2s send_timeout = 2s idle_timeout = 3s max_body = 8m }
memory { frames = 32m }
EOF

check_py "half-closed after the request: the reply still comes" <<'EOF'
from raw import *
for path, n in (("/", 0), ("/echo", 300000)):
    c = Client()
    c.send(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), n) + b"z" * n)
    c.s.shutdown(socket.SHUT_WR)
    r = c.reply()
    expect(path, (r.status, len(r.body)), (200, n or 6))
EOF

check_py "half-closed in the middle of a request" <<'EOF'
from raw import *
for part in (b"GET / HT", b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123"):
    c = Client()
    c.send(part)
    c.s.shutdown(socket.SHUT_WR)
    c.rest()
EOF

check_py "resets at every point of an exchange" <<'EOF'
import struct
from raw import *
request = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n" + b"r" * 20000
for i in range(200):
    s = connect()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.sendall(request[:i * 211 % len(request) + (len(request) if i % 5 == 0 else 0)])
    if i % 3 == 0:
        s.recv(100) if i % 5 == 0 else time.sleep(0.001)
    s.close()
expect("others", get("/").status, 200)
EOF

check_py "garbage" <<'EOF'
import random
from raw import *
random.seed(5)
for i in range(150):
    c = Client(timeout=5)
    try:
        c.send(random.randbytes(random.randrange(1, 5000)))
        c.s.shutdown(socket.SHUT_WR)
        c.rest()
    except OSError:
        pass
    c.close()
expect("others", get("/").status, 200)
EOF

check_py "readers that do not read, beside one that does" <<'EOF'
import threading
from raw import *
body = b"s" * (2 << 20)
stalled = []
def stall():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(5)
    s.connect((V4, PORT))
    try:
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    except OSError:
        pass # refused for want of memory: also an answer
    stalled.append(s)
threads = [threading.Thread(target=stall) for _ in range(30)]
[t.start() for t in threads]
for _ in range(20):
    expect("beside them", get("/").status, 200)
    time.sleep(0.05)
[t.join() for t in threads]
if not eventually(15, lambda: post("/echo", b"ok" * 1000).status == 200):
    sys.exit("they hold all memory for ever")
EOF

check_py "a thousand connections that say nothing" <<'EOF'
from raw import *
quiet = [connect() for _ in range(1000)]
expect("beside them", post("/echo", b"abc").body, b"abc")
EOF

check "200 clients that stop in the middle of a body" cl timeout 200 python3 -c '
from raw import *
cs = [Client() for _ in range(200)]
for c in cs:
    c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"q" * 50000)
expect("beside them", get("/").status, 200)
for c in cs:
    try:
        expect("them", c.reply().status in (408, 503), True)
    except (EOFError, ConnectionResetError):
        pass'
finish
