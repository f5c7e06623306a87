#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients leave, in order or killed: their requests are not computed any more, unless their listener says that clients read
# on after closing their half.
. "$(dirname "$0")/../lib.sh"

arena
gw /usr/bin/python3 "$here/agent/server.py" 127.0.0.1:8000 >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
backend echo echo
gateway <<CONF
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
listener patient { address = "$V4" port = 8081 half_close = answer }
pool server { batch { max_latency = 10s } backend a { endpoint = "http://127.0.0.1:8000" } }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/" { pool = server strip_prefix = no }
route "/echo" { pool = echo }
route "/fixed" { respond { status = 200 body = "hello\n" } }
CONF

check_py "a client that closes, or is killed: its server hears of it" <<'PY'
import os, signal, subprocess
from raw import *
def waits(path):
    return eventually(15, lambda: get("/count?" + path).body == b"1")
def told(path):
    return eventually(15, lambda: get("/gone?" + path).body != b"")
c = Client()
c.send(b"GET /wait/closed HTTP/1.1\r\nHost: x\r\n\r\n")
expect("it waits", waits("/wait/closed"), True)
c.close()
expect("closed", told("/wait/closed"), True)
for how in (), ("--http2-prior-knowledge",):
    for end in signal.SIGKILL, signal.SIGTERM:
        path = "/wait/%d/%d" % (len(how), end)
        p = subprocess.Popen(["curl", "-s", *how, "http://%s:8080%s" % (V4, path)])
        expect("%s waits" % path, waits(path), True)
        p.send_signal(end)
        p.wait()
        expect("%s %s" % (how, end), told(path), True)
PY

check_py "what is there already is read by who has closed its half" <<'PY'
from raw import *
c = Client()
c.send(b"GET /fixed HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
c.s.shutdown(socket.SHUT_WR)
expect("all", [c.reply().body for _ in range(20)], [b"hello\n"] * 20)
expect("what follows them", c.s.recv(1), b"")
PY

check_py "where clients read on, all is answered" <<'PY'
import random
from raw import *
for n in 0, 1448, 4 << 20:
    body = random.randbytes(n)
    c = Client(port=8081)
    c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % n + body)
    c.s.shutdown(socket.SHUT_WR)
    r = c.reply()
    expect(n, (r.status, r.body == body), (200, True))
PY

finish
