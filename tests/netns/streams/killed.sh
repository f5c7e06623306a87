#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A backend is killed in the midst of a thousand streams, of HTTP/1.1, HTTP/2 and gRPC: each client sees that its stream is
# incomplete.
. "$(dirname "$0")/../lib.sh"

arena
backend slow chat --interval-us 500000 --repeat 1000000
gateway <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool slow { backend a { endpoint = "shm://$D/slow.sock" } }
route "/slow" { pool = slow stream = yes }
route "/sluice.demo.Slow/" { pool = slow stream = yes }
limits { address_frames = 1 }
admin { address = "127.0.0.1" port = 9900 }
CONFIG

# The distribution's Python is the one that has grpcio.
cat >"$D/killed.py" <<'EOF'
import os, signal, socket, sys, time
import grpc
HTTP1, CONNS, STREAMS, CHANNELS, CALLS = 400, 10, 30, 6, 50
V4, PID = sys.argv[1], int(sys.argv[2])
DATA, HEADERS, RST, SETTINGS, GOAWAY, END = 0, 1, 3, 4, 7, 1
at = time.monotonic()
def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body
class Conn:
    def __init__(self, said):
        self.s, self.got = socket.create_connection((V4, 8080), timeout=60), b""
        self.s.sendall(said)
    def take(self):
        more = self.s.recv(65536)
        self.got += more
        return more
    def until(self, done):
        while not done():
            assert self.take(), self.got[-200:]
    def rest(self):
        try:
            while self.take():
                assert not self.got.endswith(b"\r\n0\r\n\r\n"), "a clean end"
        except ConnectionResetError:
            pass
class Http2(Conn):
    IDS = range(1, 2 * STREAMS, 2)
    def __init__(self):
        head = b"\x83\x86\x04\x05/slow\x41\x01x"
        super().__init__(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)
                         + b"".join(frame(HEADERS, 4, i, head) + frame(DATA, END, i, b"word") for i in self.IDS))
    def streams(self, kinds, flags=0):
        """Those that have had such a frame, with these flags."""
        at, found = 0, set()
        while len(self.got) >= at + 9 and len(self.got) >= at + 9 + int.from_bytes(self.got[at:at + 3], "big"):
            if self.got[at + 3] in kinds and self.got[at + 4] & flags == flags:
                found.add(int.from_bytes(self.got[at + 5:at + 9], "big"))
            at += 9 + int.from_bytes(self.got[at:at + 3], "big")
        return found
plain = [Conn(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nword ") for i in range(HTTP1)]
framed = [Http2() for i in range(CONNS)]
channels = [grpc.insecure_channel(V4 + ":8080", options=[("grpc.use_local_subchannel_pool", 1)]) for i in range(CHANNELS)]
calls = [c.unary_stream("/sluice.demo.Slow/Say")(b"word", timeout=80) for c in channels for i in range(CALLS)]
for c in plain:
    c.until(lambda: b"data: word" in c.got)
for c in framed:
    c.until(lambda: c.streams([DATA]) == set(c.IDS))
for c in calls:
    word = next(c)
    assert word == b"word", word
print("%.1f s: %d streams" % (time.monotonic() - at, HTTP1 + CONNS * STREAMS + CHANNELS * CALLS))
os.kill(PID, signal.SIGKILL)
for c in plain:
    c.rest()
for c in framed:
    c.until(lambda: c.streams([RST]) == set(c.IDS) or c.streams([DATA, HEADERS], END))
    assert not c.streams([DATA, HEADERS], END), "a clean end"
for c in calls:
    try:
        for word in c:
            assert word == b"word"
        raise AssertionError("a clean end")
    except grpc.RpcError as e:
        assert e.code() == grpc.StatusCode.UNAVAILABLE, e
print("%.1f s: each has seen it" % (time.monotonic() - at))
EOF
check "a backend killed in the midst of a thousand streams: never a clean end" \
	cl timeout 200 /usr/bin/python3 "$D/killed.py" "$V4" "${pid_of[slow]}"
[ -z "${SL_VERBOSE:-}" ] || cat "$D/out"
kill -9 "${pid_of[slow]}" 2>/dev/null # where the check has ended before it did
wait "${pid_of[slow]}" 2>/dev/null
unset "pid_of[slow]"
check "and the gateway counts a thousand" eval '[ "$(metric "sluice_exchanges_total{worker=\"0\",outcome=\"backend_lost\"}")" = 1000 ]'
finish
