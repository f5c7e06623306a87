#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume
# Memory: a thousand clients that do not read what a backend sends at full speed, and a thousand whose uploads a backend
# does not read. Others, of their address and of another, are served meanwhile, and no byte is lost. slow-ends.sh has more
# kinds of slowness.
. "$(dirname "$0")/../lib.sh"

arena
backend chat chat
backend flood chat --repeat 100000000
python_backend deaf backends/served_streams.py
# An address has half of 393,216 frames.
gateway <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
listener web6 { address = "$V6" port = 8080 }
pool chat { backend a { endpoint = "shm://$D/chat.sock" } }
pool flood { backend a { endpoint = "shm://$D/flood.sock" } }
pool deaf { backend a { endpoint = "shm://$D/deaf.sock" } }
route "/python" { pool = deaf stream = yes strip_prefix = yes }
route "/chat" { pool = chat stream = yes }
route "/flood" { pool = flood stream = yes }
limits { max_connections = 4096 send_timeout = 600s send_rate = 0 }
memory { frames = 768m }
admin { address = "127.0.0.1" port = 9900 }
CONFIG

export ADMIN=/run/sluice/$GIF.sock
# A sanitizer keeps what was freed.
most=65536
[ "${SL_SANITIZED:-}" != 1 ] || most=$((2 << 20))
cat >"$D/memory.py" <<'EOF'
import json, os, socket, sys, time
def rss(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10
def frames():
    """All of the gateway's are resident from the start on, so those in use count."""
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["ADMIN"])
    s.sendall(b"GET /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    got = b"".join(iter(lambda: s.recv(1 << 16), b""))
    return -2048 * sum(w["frames_free"] for w in json.loads(got.partition(b"\r\n\r\n")[2])["workers"])
def settled(pids):
    """What each has, the gateway first."""
    last = None
    while True:
        now = [rss(p) for p in pids]
        now[0] += frames()
        if last and all(abs(a - b) < 65536 for a, b in zip(now, last)):
            return now
        last = now
        time.sleep(0.5)
def chat(address):
    """Others are served beside them."""
    s = socket.create_connection((address, 8080), timeout=20)
    s.sendall(b"POST /chat HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nfour five")
    got = b""
    while not got.endswith(b"0\r\n\r\n"):
        part = s.recv(4096)
        assert part and (got + part).startswith(b"HTTP/1.1 200"[:len(got + part)]), got + part
        got += part
EOF
memory() {
	local text=$1
	shift
	{ cat "$D/memory.py"; cat; } >"$D/all.py"
	check "$text" cl timeout 200 python3 "$D/all.py" "$@"
	[ -z "${SL_VERBOSE:-}" ] || cat "$D/out"
}
memory "a thousand clients that stop reading cost less than 64 KiB each" "$V4" "$V6" "$most" "$(gateway_child)" "${pid_of[flood]}" <<'EOF'
N = 1000
most = int(sys.argv[3])
pids = [int(p) for p in sys.argv[4:]]
socks = []
def more(n):
    for i in range(n):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(60)
        s.connect((sys.argv[1], 8080))
        s.sendall(b"POST /flood HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nword ")
        assert s.recv(100), i
        socks.append(s)
more(10)
before = settled(pids)
more(N)
after = settled(pids)
for b, a in zip(before, after):
    assert a - b < N * most, (b, a)
    print("%d bytes each" % ((a - b) // N))
for address in sys.argv[1:3]:
    chat(address)
# None of them was broken off: each has more.
for s in socks:
    assert s.recv(4096)
EOF
check "and none of them was refused anything" eval '[ "$(metric sluice_address_limits_total)" = 0 ]'

# As much as is taken of them, each in chunks; then the backend is told to read.
memory "a thousand clients that nobody reads cost less than 64 KiB each" "$V4" "$V6" "$most" "$(gateway_child)" "${pid_of[deaf]}" <<'EOF'
N, CHUNK = 1000, b"2000\r\n" + b"u" * 8192 + b"\r\n"
most, pids = int(sys.argv[3]), [int(p) for p in sys.argv[4:]]
socks = []
def more(n):
    for i in range(n):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        s.settimeout(60)
        s.connect((sys.argv[1], 8080))
        s.sendall(b"POST /python/deaf?all HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        s.setblocking(False)
        socks.append([s, 0, b""])
def push():
    """What is left of a chunk goes first; until nobody takes a byte for a second."""
    moved = time.monotonic()
    while time.monotonic() < moved + 1:
        for p in socks:
            try:
                while p[1] < 1 << 21:
                    if not p[2]:
                        p[2], p[1] = CHUNK, p[1] + 8192
                    p[2] = p[2][p[0].send(p[2]):]
                    moved = time.monotonic()
            except BlockingIOError:
                pass
        time.sleep(0.05)
more(10)
push()
before = settled(pids)
more(N)
push()
after = settled(pids)
print([(a - b) // N for a, b in zip(after, before)], "bytes each;", sum(p[1] for p in socks) // len(socks), "sent")
assert all(a - b < N * most for a, b in zip(after, before)), (before, after)
assert all(p[1] < 1 << 20 for p in socks), max(p[1] for p in socks)
for address in sys.argv[1:3]:
    chat(address)
wake = socket.create_connection((sys.argv[1], 8080), timeout=20)
wake.sendall(b"POST /python/wake?all HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
assert wake.recv(4096).startswith(b"HTTP/1.1 200")
for s, sent, rest in socks:
    s.settimeout(60)
    s.sendall(rest + b"0\r\n\r\n")
for s, sent, rest in socks:
    got = b""
    while not got.endswith(b"\r\n\r\n%d" % sent):
        part = s.recv(4096)
        assert part and len(got) < 1000, (got, sent)
        got += part
EOF
check "none of them either" eval '[ "$(metric sluice_address_limits_total)" = 0 ]'

# The same over HTTP/2, a hundred on a connection, each as far as its windows are open.
memory "a thousand streams of HTTP/2 that nobody reads cost less than 64 KiB each" "$V4" "$V6" "$most" "$(gateway_child)" "${pid_of[deaf]}" <<'EOF'
N, PER = 1000, 100
most, pids = int(sys.argv[3]), [int(p) for p in sys.argv[4:]]
DATA, HEADERS, RST, SETTINGS, GOAWAY, WINDOW, END = 0, 1, 3, 4, 7, 8, 1
def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body
class Conn:
    def __init__(self, n):
        self.s = socket.create_connection((sys.argv[1], 8080), timeout=60)
        self.got, self.window = b"", 65535
        self.streams = {2 * i + 1: [65535, 0, b""] for i in range(n)}  # its window, what was sent, the reply
        self.s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0))
        for id in self.streams:
            self.s.sendall(frame(HEADERS, 4, id, b"\x83\x86\x04\x0f/python/deaf?h2\x41\x01x"))
    def hear(self, timeout):
        self.s.settimeout(timeout)
        try:
            more = self.s.recv(1 << 16)
        except TimeoutError:
            return
        assert more, "closed"
        self.got += more
        while len(self.got) >= 9 and len(self.got) >= 9 + int.from_bytes(self.got[:3], "big"):
            n, kind, id = int.from_bytes(self.got[:3], "big"), self.got[3], int.from_bytes(self.got[5:9], "big")
            flags, body, self.got = self.got[4], self.got[9:9 + n], self.got[9 + n:]
            assert kind not in (RST, GOAWAY), (kind, id, body)
            if kind == SETTINGS and not flags & 1:
                for i in range(0, n, 6):
                    if body[i:i + 2] == b"\0\4":
                        for st in self.streams.values():
                            st[0] += int.from_bytes(body[i + 2:i + 6], "big") - 65535
            elif kind == WINDOW and id:
                self.streams[id][0] += int.from_bytes(body, "big")
            elif kind == WINDOW:
                self.window += int.from_bytes(body, "big")
            elif kind == DATA:
                self.streams[id][2] += body
    def push(self):
        """Until no window opens for a second."""
        self.hear(20)  # the settings come first
        moved = time.monotonic()
        while time.monotonic() < moved + 1:
            for id, st in self.streams.items():
                while (n := min(st[0], self.window, 8192)) > 0 and st[1] < 1 << 21:
                    self.s.settimeout(60)
                    self.s.sendall(frame(DATA, 0, id, bytes(n)))
                    st[0], st[1], self.window, moved = st[0] - n, st[1] + n, self.window - n, time.monotonic()
            self.hear(0.05)
conns = []
def more(n, per):
    for i in range(n):
        conns.append(Conn(per))
        conns[-1].push()
more(1, 10)
before = settled(pids)
more(N // PER, PER)
after = settled(pids)
sent = [st[1] for c in conns for st in c.streams.values()]
print([(a - b) // N for a, b in zip(after, before)], "bytes each;", sum(sent) // len(sent), "sent,", max(sent), "at the most")
assert all(a - b < N * most for a, b in zip(after, before)), (before, after)
assert max(sent) < 1 << 20, max(sent)
for address in sys.argv[1:3]:
    chat(address)
wake = socket.create_connection((sys.argv[1], 8080), timeout=20)
wake.sendall(b"POST /python/wake?h2 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
assert wake.recv(4096).startswith(b"HTTP/1.1 200")
for c in conns:
    for id in c.streams:
        c.s.sendall(frame(DATA, END, id))
    while any(st[2] != b"%d" % st[1] for st in c.streams.values()):
        c.hear(60)
EOF
check "nor of these" eval '[ "$(metric sluice_address_limits_total)" = 0 ]'
finish
