#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Other protocols on a connection that began as HTTP: Upgrade of HTTP/1.1, extended CONNECT of HTTP/2.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
backend no echo --fail 403
backend deaf chat
gateway <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool echo { backend a { endpoint = "shm://$D/echo.sock" } }
pool deaf { backend a { endpoint = "shm://$D/deaf.sock" } }
pool no { backend a { endpoint = "shm://$D/no.sock" } }
route "/ws" { pool = echo stream = yes upgrade = {"websocket", "raw"} stream_idle_timeout = 5s }
route "/short" { pool = echo stream = yes upgrade = {"websocket"} stream_idle_timeout = 1s }
route "/no" { pool = no stream = yes upgrade = {"websocket"} }
route "/deaf" { pool = deaf stream = yes upgrade = {"websocket"} }
route "/plain" { pool = echo stream = yes }
admin { address = "127.0.0.1" port = 9900 }
CONFIG

cat >"$D/ws.py" <<'EOF'
import socket, sys
def opened(path, upgrade="websocket", behind=b""):
    s = socket.create_connection((sys.argv[1], 8080), timeout=30)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n"
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode() + behind)
    head = b""
    while b"\r\n\r\n" not in head:
        more = s.recv(4096)
        assert more, head
        head += more
    head, rest = head.split(b"\r\n\r\n", 1)
    return s, head.lower(), rest
def read(s, n, got=b""):
    while len(got) < n:
        more = s.recv(65536)
        assert more, got
        got += more
    return got
EOF
ws() { local text=$1; shift; { cat "$D/ws.py"; cat; } >"$D/all.py"; check "$text" cl timeout 200 python3 "$D/all.py" "$V4" "$@"; }

ws "bytes go both ways, and no request is read among them" <<'EOF'
s, head, rest = opened("/ws")
assert head.startswith(b"http/1.1 101 "), head
assert b"\r\nupgrade: websocket" in head and b"\r\nconnection: upgrade" in head, head
assert b"content-length" not in head and b"transfer-encoding" not in head, head
for word in (b"\x81\x05hello", b"GET /no HTTP/1.1\r\nHost: x\r\n\r\n", bytes(range(256)) * 300):
    s.sendall(word)
    assert read(s, len(word)) == word
s.shutdown(socket.SHUT_WR)
assert s.recv(10) == b""
EOF

ws "bytes before the answer come behind it" <<'EOF'
early = b"GET /no HTTP/1.1\r\nHost: x\r\n\r\n" * 50
s, head, rest = opened("/ws", "other, RAW", early)
assert head.startswith(b"http/1.1 101 ") and b"\r\nupgrade: raw" in head, head
assert read(s, len(early), rest) == early
EOF

ws "a refusal closes, and what was sent is no request" <<'EOF'
s, head, rest = opened("/no", behind=b"GET /plain HTTP/1.1\r\nHost: x\r\n\r\n")
assert head.startswith(b"http/1.1 403 ") and b"connection: close" in head, head
while True:
    try:
        more = s.recv(4096)
    except ConnectionResetError:
        break
    if not more:
        break
    rest += more
assert b"HTTP/1.1" not in rest, rest
EOF

ws "a backend that knows nothing of upgrades answers as it would without" <<'EOF'
s, head, rest = opened("/deaf")
assert head.startswith(b"http/1.1 200 ") and b"text/event-stream" in head and b"upgrade:" not in head, head
assert b"\r\ncontent-length: 0\r\n" in head and rest == b"", (head, rest)
assert s.recv(10) == b""
EOF

ws "without the key, and for other protocols, it is a request like any other" <<'EOF'
for path, upgrade in (("/plain", "websocket"), ("/ws", "other")):
    s, head, rest = opened(path, upgrade)
    assert head.startswith(b"http/1.1 200 "), head
    assert b"connection: close" not in head and b"upgrade" not in head, head
EOF

ws "one that says nothing ends" <<'EOF'
s, head, rest = opened("/short")
assert head.startswith(b"http/1.1 101 "), head
try:
    assert s.recv(10) == b""
    raise AssertionError("an end in order")
except ConnectionResetError:
    pass
EOF

check_py "WebSocket over HTTP/2" "$V4" <<'EOF'
import socket, sys
def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body
def field(name, value):
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value
DATA, HEADERS, SETTINGS, WINDOW = 0, 1, 4, 8
class Peer:
    def __init__(self):
        self.s, self.data = socket.create_connection((sys.argv[1], 8080), timeout=30), b""
        self.s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
        settings = self.read(SETTINGS)[1]
        assert b"\0\x08\0\0\0\1" in [settings[i:i + 6] for i in range(0, len(settings), 6)], settings
    def read(self, *kinds):
        while True:
            while len(self.data) < 9 or len(self.data) < 9 + int.from_bytes(self.data[:3], "big"):
                more = self.s.recv(65536)
                assert more, "closed"
                self.data += more
            n, kind, flags = int.from_bytes(self.data[:3], "big"), self.data[3], self.data[4]
            body, self.data = self.data[9:9 + n], self.data[9 + n:]
            if kind in kinds:
                return flags, body
    def connect(self, path, protocol):
        self.s.sendall(frame(HEADERS, 4, 1, field(b":method", b"CONNECT") + field(b":protocol", protocol)
                             + field(b":scheme", b"http") + field(b":path", path) + field(b":authority", b"x")
                             + field(b"sec-websocket-version", b"13")))
        return self.read(HEADERS)[1]
    def echo(self, word):
        self.s.sendall(frame(DATA, 0, 1, word))
        got = b""
        while len(got) < len(word):
            flags, body = self.read(DATA)
            assert not flags & 1
            got += body
        assert got == word
        more = len(word).to_bytes(4, "big")
        self.s.sendall(frame(WINDOW, 0, 1, more) + frame(WINDOW, 0, 0, more))
OK, NOT_FOUND = 0x88, 0x8d
p = Peer()
assert p.connect(b"/ws", b"websocket")[0] == OK
for word in [b"hello", b"GET / HTTP/1.1\r\n\r\n"] + [b"x" * 16000] * 50:
    p.echo(word)
p.s.sendall(frame(DATA, 1, 1))
assert p.read(DATA) == (1, b"")
for path, protocol in ((b"/ws", b"other"), (b"/plain", b"websocket")):
    p = Peer()
    assert p.connect(path, protocol)[0] != OK
    assert p.read(DATA)[1] == b"this protocol is not among those of its route (key upgrade)"
assert Peer().connect(b"/none", b"websocket")[0] == NOT_FOUND
assert Peer().connect(b"/no", b"websocket")[0] != OK
assert Peer().connect(b"/deaf", b"websocket")[0] != OK
EOF

# Told by the end of what comes, the backend ends its own side: in order, before the deadline of the drain.
ws "a drain ends them in order" "$(gateway_child)" <<'EOF'
import os, signal
s, head, rest = opened("/ws")
s.sendall(b"last word")
assert read(s, 9, rest) == b"last word"
os.kill(int(sys.argv[2]), signal.SIGTERM)
assert s.recv(10) == b""
EOF
check "and the gateway ends" within 30 eval '! alive "$gateway_pid"'
wait "$gateway_pid"
gateway_pid=''
finish
