#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume
# Clients with a window of zero for 30 s get every byte once they read, and disturb no others meanwhile.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
listener v6 { address = "$V6" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
route "/" { respond { status = 200 body = "hello\n" } }
limits { send_timeout = 90s idle_timeout = 90s body_timeout = 90s }
EOF

check_py "not read for 30 s, then byte for byte" 30 <<'EOF'
import array
import fcntl
import random
import termios
from raw import *
random.seed(3)
body = random.randbytes(4 << 20)
head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
stalled = []
for host in (V4, V6) * 2:
    c = Client.__new__(Client)
    c.buf, c.s = b"", socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    c.s.settimeout(30)
    c.s.connect((host, PORT))
    c.send(head + body)
    stalled.append(c)
until = time.monotonic() + float(sys.argv[1])
others = 0
while time.monotonic() < until:
    host = (V4, V6)[others % 2]
    expect("beside them", get("/", host).status, 200)
    expect("beside them", post("/echo", body[:100000], host).body == body[:100000], True)
    others += 1
    time.sleep(0.1)
expect("others", others > 0, True)
for i, c in enumerate(stalled):
    unread = array.array("i", [0])
    fcntl.ioctl(c.s, termios.FIONREAD, unread)
    expect(f"stalled {i} has some, and its window is shut", 0 < unread[0] < 100000, True)
for i, c in enumerate(stalled):
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    r = c.reply()
    expect(f"stalled {i}", (r.status, len(r.body), r.body == body), (200, len(body), True))
    c.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    expect(f"stalled {i} goes on", c.reply().status, 200)
EOF
check "nobody timed out" [ "$(stat_sum tcp.timeouts)" -eq 0 ]
finish
