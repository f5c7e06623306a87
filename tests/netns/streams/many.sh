#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume
# 10,000 gRPC streams at a time, on 100 connections: each says three words and hears them, and ends.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gateway <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool echo { backend a { endpoint = "shm://$D/echo.sock" } }
route "/sluice.demo.Echo/" { pool = echo stream = yes }
limits { idle_timeout = 600s header_timeout = 600s address_connections = 1 address_exchanges = 1 address_reading = 1 address_frames = 1 }
memory { frames = 256m }
admin { address = "127.0.0.1" port = 9900 }
CONFIG

check_py "10,000 streams on 100 connections" "$V4" <<'EOF'
import selectors, socket, sys, time
CONNS, STREAMS, ROUNDS = 100, 100, 3
def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body
def field(name, value):
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value
DATA, HEADERS, RST, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
HEAD = b"\x83\x86" + field(b":path", b"/sluice.demo.Echo/Echo") + field(b":authority", b"x") \
    + field(b"content-type", b"application/grpc") + field(b"te", b"trailers")
WORD = b"\0\0\0\0\5hello"
IDS = range(1, 2 * STREAMS, 2)
class Conn:
    def __init__(self):
        self.s = socket.create_connection((sys.argv[1], 8080), timeout=60)
        self.s.setblocking(False)
        self.data = b""
        self.out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)
        self.heard = dict.fromkeys(IDS, 0)  # bytes
        self.ended = 0
    def take(self):
        self.data += self.s.recv(1 << 18)
        while len(self.data) >= 9:
            n = int.from_bytes(self.data[:3], "big")
            if len(self.data) < 9 + n:
                return
            kind, flags, stream = self.data[3], self.data[4], int.from_bytes(self.data[5:9], "big")
            assert kind not in (RST, GOAWAY), (kind, stream, self.data[9:9 + n])
            if kind == DATA:
                self.heard[stream] += n
                assert not flags & 1
            elif kind == HEADERS and flags & 1:
                self.ended += 1
            self.data = self.data[9 + n:]
conns = [Conn() for i in range(CONNS)]
def until(done):
    deadline = time.monotonic() + 120
    sel = selectors.DefaultSelector()
    for c in conns:
        sel.register(c.s, selectors.EVENT_READ | (selectors.EVENT_WRITE if c.out else 0), c)
    left = {c for c in conns if c.out or not done(c)}
    while left:
        assert time.monotonic() < deadline, (len(left), [(c.ended, min(c.heard.values())) for c in left][:3])
        for key, events in sel.select(1):
            c = key.data
            if events & selectors.EVENT_WRITE:
                c.out = c.out[c.s.send(c.out):]
                if not c.out:
                    sel.modify(c.s, selectors.EVENT_READ, c)
            if events & selectors.EVENT_READ:
                c.take()
            if not c.out and done(c):
                left.discard(c)
for r in range(1, ROUNDS + 1):
    at = time.monotonic()
    for c in conns:
        c.out += b"".join((frame(HEADERS, 4, i, HEAD) if r == 1 else b"") + frame(DATA, 0, i, WORD) for i in IDS)
    until(lambda c: min(c.heard.values()) == r * len(WORD))
    print("round %d: %.2f s" % (r, time.monotonic() - at))
for c in conns:
    c.out += b"".join(frame(DATA, 1, i) for i in IDS)
until(lambda c: c.ended == STREAMS)
EOF
check "each of them ended well" eval '[ "$(metric "sluice_exchanges_total{worker=\"0\",outcome=\"ok\"}")" = 10000 ]'
finish
