#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# WebSocket through an agent: the stock server and client of Debian's python3-websockets, WebSocket over HTTP/2, and
# servers that do it wrong.
. "$(dirname "$0")/../lib.sh"

arena
nsenter --net="/run/netns/$server_netns" /usr/bin/python3 "$here/agent/upgrade_server.py" "$server_ip" 8000 8001 >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || { cp "$D/server.log" "$D/out"; say_failed "the server does not start"; }
gateway <<CONF
interface "$GIF" { }
$server_keys
listener v4 { address = "$V4" port = 8080 }
pool stock { backend a { endpoint = "http://$server_ip:8000"$server_way } }
pool hand { backend a { endpoint = "http://$server_ip:8001"$server_way } }
pool h2c { backend a { endpoint = "h2c://$server_ip:8001"$server_way } }
route "/stock" { pool = stock }
route "/hand" { pool = hand stream = yes upgrade = {"websocket"} strip_prefix = yes }
route "/brief" { pool = hand stream = yes upgrade = {"websocket"} strip_prefix = yes stream_timeout = 8s }
route "/quiet" { pool = hand stream = yes upgrade = {"websocket"} strip_prefix = yes stream_idle_timeout = 5s }
route "/h2c" { pool = h2c stream = yes upgrade = {"websocket"} strip_prefix = yes }
CONF

cat >"$D/stock.py" <<'PY'
import asyncio
import websockets
from raw import V4, expect

async def talk(i):
    async with websockets.connect(f"ws://{V4}:8080/stock/x?y", max_size=None, ping_interval=None) as ws:
        for message in ("hello", b"\x00\xff" * 5, "", "x" * 200000, bytes(range(256)) * 8000):
            await ws.send(message)
            expect("message", await ws.recv() == message, True)
        await (await ws.ping())

async def main():
    await talk(0)
    await asyncio.gather(*(talk(i) for i in range(20)))

asyncio.run(main())
PY
check "stock ends: text, bytes, pings, an orderly close; 20 at a time" cl timeout 200 /usr/bin/python3 "$D/stock.py"

cat >"$D/opened.py" <<'PY'
from raw import *
import struct
def opened(path):
    c = Client(timeout=30)
    c.send(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
    return c
def head(c):
    while b"\r\n\r\n" not in c.buf:
        c._more()
    head, c.buf = c.buf.split(b"\r\n\r\n", 1)
    return head.lower()
PY
hand() { local text=$1; { cat "$D/opened.py"; cat; } >"$D/all.py"; check "$text" cl timeout 200 python3 "$D/all.py"; }

cat >"$D/bare.py" <<'PY'
from raw import *
for name, fields in (("no key", b"Sec-WebSocket-Version: 13\r\n"),
                     ("old version", b"Sec-WebSocket-Version: 7\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")):
    c = Client(timeout=30)
    c.send(b"GET /stock HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + fields + b"\r\n")
    expect(name, c.reply().status, 400)
PY
check "a handshake that its server refuses reaches it as it is" cl timeout 200 python3 "$D/bare.py"

hand "bytes right behind the 101, an end of one half, an end of the server's" <<'PY'
c = opened("/hand/eager")
h = head(c)
expect("accepted", (h.split(b"\r\n")[0], b"\r\nsec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=" in h),
       (b"http/1.1 101 switching protocols", True))
expect("first", c._bytes(5), b"first")
for data in (b"x", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(range(256)) * 1000):
    c.send(data)
    expect("again", c._bytes(len(data)) == data, True)
c.send(b"last")
c.s.shutdown(socket.SHUT_WR)
expect("last", c.rest(), b"last")
c = opened("/hand/bye")
head(c)
expect("bye", c.rest(), b"bye")
PY
hand "a client that leaves: the server's connection ends" <<'PY'
c = opened("/hand/eager")
head(c)
expect("there", eventually(20, lambda: get("/hand/seen").body == b"1"), True)
c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
c.close()
expect("gone", eventually(20, lambda: get("/hand/seen").body == b"0"), True)
PY
hand "refused, switched to something else, and to a server that cannot" <<'PY'
r = opened("/hand/no").reply()
expect("refused", (r.status, r.body), (403, b"no"))
expect("another protocol", opened("/hand/other").reply().status, 502)
expect("none there", opened("/h2c/eager").reply().status, 501)
PY

cat >"$D/h2_peer.py" <<'PY'
import socket, sys
def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body
def field(name, value):
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value
DATA, HEADERS, RESET, SETTINGS = 0, 1, 3, 4
END_STREAM, OK = 1, 0x88
class Peer:
    def __init__(self):
        self.s, self.data = socket.create_connection((sys.argv[1], 8080), timeout=30), b""
        self.s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
    def read(self, *kinds):
        return self.read_any(*kinds)[:2]
    def read_any(self, *kinds):
        while True:
            while len(self.data) < 9 or len(self.data) < 9 + int.from_bytes(self.data[:3], "big"):
                more = self.s.recv(65536)
                assert more, "closed"
                self.data += more
            n, kind, flags = int.from_bytes(self.data[:3], "big"), self.data[3], self.data[4]
            body, self.data = self.data[9:9 + n], self.data[9 + n:]
            if kind in kinds:
                return flags, body, kind
    def connect(self, path):
        self.s.sendall(frame(HEADERS, 4, 1, field(b":method", b"CONNECT") + field(b":protocol", b"websocket")
                             + field(b":scheme", b"http") + field(b":path", path) + field(b":authority", b"x")
                             + field(b"sec-websocket-version", b"13")))
        return self.read(HEADERS)[1]
PY
check_py "WebSocket over HTTP/2: the agent makes the key, and checks what the server makes of it" "$V4" <<'PY'
import os
from h2_peer import *
p = Peer()
reply = p.connect(b"/stock/x")
assert reply[0] == OK and b"sec-websocket-accept" not in reply, reply
text, mask = b"over HTTP/2", os.urandom(4)
masked = bytes(b ^ mask[i % 4] for i, b in enumerate(text))
p.s.sendall(frame(DATA, 0, 1, bytes([0x81, 0x80 | len(text)]) + mask + masked))
want, got = bytes([0x81, len(text)]) + text, b""
while len(got) < len(want):
    got += p.read(DATA)[1]
assert got == want, got
assert Peer().connect(b"/hand/eager")[0] == OK
assert Peer().connect(b"/hand/wrong")[0] != OK
PY

# Both sides of the gateway are broken off, with and without bytes both ways, and counted as that.
count() { metric "sluice_exchanges_total{worker=\"0\",outcome=\"$1\"}"; }
hand "stream_timeout and stream_idle_timeout: the client sees a break, the server an end" <<'PY'
for path, talks in (("/brief/eager", True), ("/quiet/eager", False)):
    c = opened(path)
    expect("accepted", head(c).split(b"\r\n")[0], b"http/1.1 101 switching protocols")
    expect("first", c._bytes(5), b"first")
    expect("there", get("/hand/seen").body, b"1")
    rounds = 0
    try:
        while rounds == 0 or talks:
            c.send(b"again")
            expect("again", c._bytes(5), b"again")
            rounds += 1
            time.sleep(0.01)
        expect("silence", c.s.recv(1), None)
    except (ConnectionResetError, BrokenPipeError):
        pass
    expect("rounds", rounds > 0, True)
    expect("ended at the server", eventually(20, lambda: get("/hand/seen").body == b"0"), True)
PY
check "each is counted by its reason" eval '[ "$(count expired) $(count stream_idle)" = "1 1" ]'
check_py "the same over HTTP/2" "$V4" <<'PY'
import time
from h2_peer import *
from raw import eventually, expect, get
for path, talks in ((b"/brief/eager", True), (b"/quiet/eager", False)):
    p = Peer()
    assert p.connect(path)[0] == OK
    kind, got, rounds = DATA, b"", 0
    while kind == DATA:
        flags, body, kind = p.read_any(DATA, HEADERS, RESET)
        assert kind == RESET or not flags & END_STREAM, (flags, body)
        got += body if kind == DATA else b""
        if kind == DATA and got == b"first" + b"again" * rounds and (rounds == 0 or talks):
            expect("there", rounds > 0 or get("/hand/seen").body == b"1", True)
            time.sleep(0.01)
            p.s.sendall(frame(DATA, 0, 1, b"again"))
            rounds += 1
    assert kind == RESET and rounds > 0, (kind, rounds)
    expect("ended at the server", eventually(20, lambda: get("/hand/seen").body == b"0"), True)
PY
check "each is counted once more" eval '[ "$(count expired) $(count stream_idle)" = "2 2" ]'
check "the log says what was wrong" grep -q "a reply was refused: an upgrade that was not requested" "$D/gw.log"
finish
