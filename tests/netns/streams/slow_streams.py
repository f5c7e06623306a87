# SPDX-License-Identifier: Apache-2.0
"""Cost of streams with one stopped end: slow_streams.py PATH PROTOCOL SLOW N MOST NAME=PID..., with PROTOCOL h1, h2 or grpc and
SLOW client or server. Opens N streams to PATH, in HTTP/2 a hundred per connection. Then prints, per stream, the growth of the
processes' resident memory, for the gateway that of frames in use: its frames are resident from the start. Others are served
meanwhile; their latency is printed."""
from raw import *
import json
import os
import select
import statistics
import struct

path, protocol, slow, N, most = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
pids = {name: int(pid) for name, pid in (a.split("=") for a in sys.argv[6:])}
FRAME, PER, FEW = 2048, 100, 10
DATA, HEADERS, RST, SETTINGS, GOAWAY, WINDOW = 0, 1, 3, 4, 7, 8
MESSAGE = b"\0\0\0\0\xfb" + bytes(251)


def frame(what, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([what, flags]) + stream.to_bytes(4, "big") + body


def literal(name, value):
    """Writes a field with the number of its name in the static table, or with the name."""
    head = bytes([name]) if isinstance(name, int) else bytes([0, len(name)]) + name
    return head + bytes([len(value)]) + value


def resident(pid):
    return next(int(line.split()[1]) << 10 for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS"))


def frames():
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["ADMIN"])
    s.sendall(b"GET /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    got = b"".join(iter(lambda: s.recv(1 << 16), b""))
    return -sum(w["frames_free"] for w in json.loads(got.partition(b"\r\n\r\n")[2])["workers"]) * FRAME


def memory():
    return {name: resident(pid) + (frames() if name == "gateway" else 0) for name, pid in pids.items()}


def settled():
    last, now = None, memory()
    while not last or any(abs(now[name] - last[name]) > 65536 for name in now):
        time.sleep(0.5)
        last, now = now, memory()
    return now


class Http1:
    """One stream."""

    def __init__(self, _):
        self.s = socket.socket()
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.s.settimeout(30)
        self.s.connect((V4, PORT))
        self.sent, self.rest = 0, b""
        if slow == "client":
            self.s.sendall(b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nword " % path.encode())
            expect("a reply", self.s.recv(12), b"HTTP/1.1 200")
        else:
            self.s.sendall(b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), 60000000))
        self.s.setblocking(False)

    def push(self):
        if slow == "server":
            while True:
                self.sent += self.s.send(bytes(65536))

    def most(self):
        return self.sent


class Http2:
    """Many streams."""

    def __init__(self, n):
        self.s = socket.socket()
        self.s.settimeout(30)
        self.s.connect((V4, PORT))
        self.got, self.rest, self.window = b"", b"", 65535
        self.left, self.said = {2 * i + 1: 65535 for i in range(n)}, dict.fromkeys((2 * i + 1 for i in range(n)), 0)
        # The connection's window is open, so that it is its streams that do not read.
        self.s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0) +
                       frame(WINDOW, 0, 0, (1 << 30).to_bytes(4, "big")))
        fields = b"\x83\x86" + literal(4, b"/" + path.encode()) + literal(1, b"x")
        if protocol == "grpc":
            fields += literal(b"content-type", b"application/grpc") + literal(b"te", b"trailers")
        for id in self.left:
            word = (b"\0\0\0\0\5" if protocol == "grpc" else b"") + b"word "
            self.s.sendall(frame(HEADERS, 4, id, fields) + (frame(DATA, 1, id, word) if slow == "client" else b""))
        self.s.setblocking(False)

    def hear(self):
        try:
            more = self.s.recv(1 << 16)
        except BlockingIOError:
            return False
        expect("open", bool(more), True)
        self.got += more
        at = 0
        while len(self.got) - at >= 9 and len(self.got) - at >= 9 + (n := int.from_bytes(self.got[at:at + 3], "big")):
            what, flags, id = self.got[at + 3], self.got[at + 4], int.from_bytes(self.got[at + 5:at + 9], "big")
            body = self.got[at + 9:at + 9 + n]
            at += 9 + n
            expect(f"stream {id}", what in (RST, GOAWAY), False)
            if what == SETTINGS and not flags & 1:
                first = next((int.from_bytes(body[i + 2:i + 6], "big") for i in range(0, n, 6) if body[i:i + 2] == b"\0\4"), 65535)
                for id in self.left:
                    self.left[id] += first - 65535
            elif what == WINDOW and id:
                self.left[id] += int.from_bytes(body, "big")
            elif what == WINDOW:
                self.window += int.from_bytes(body, "big")
        self.got = self.got[at:]
        return True

    def push(self):
        while self.hear():
            pass
        if slow == "client":
            raise BlockingIOError
        while True:
            if not self.rest:
                id = max(self.left, key=self.left.get)
                n = min(self.left[id], self.window, 8192) & -len(MESSAGE)
                if n <= 0:
                    raise BlockingIOError
                self.rest = frame(DATA, 0, id, MESSAGE * (n // len(MESSAGE)))
                self.left[id] -= n
                self.window -= n
                self.said[id] += n
            self.rest = self.rest[self.s.send(self.rest):]

    def most(self):
        return max(self.said.values())


conns = []


def push():
    """Runs until no byte moves in either direction for a second."""
    poll = select.poll()
    by_fd = {c.s.fileno(): c for c in conns}
    moved, last = time.monotonic(), None
    while time.monotonic() < moved + 1:
        for c in conns:
            try:
                c.push()
            except BlockingIOError:
                pass
        now = sum(c.sent if protocol == "h1" else sum(c.said.values()) for c in conns)
        if now != last:
            last, moved = now, time.monotonic()
        time.sleep(0.05)


def begin(n):
    per = 1 if protocol == "h1" else min(PER, n)
    for _ in range(n // per):
        conns.append((Http1 if protocol == "h1" else Http2)(per))
    push()


def late():
    """How long others take: the median, which one stall of a busy machine does not move."""
    took = []
    c = Client()
    for _ in range(300):
        at = time.monotonic()
        c.send(b"POST /chat HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nfour five")
        expect("others are served", c.reply().status, 200)
        took.append(time.monotonic() - at)
    return statistics.median(took)


def measure():
    before_late = min(late() for _ in range(3))
    begin(FEW)
    before = settled()
    begin(N)
    after = settled()
    print(f"{path} {protocol}: slow {slow}: " + ", ".join(f"{(after[n] - before[n]) // N} bytes of the {n}'s" for n in pids) + " for each")
    if slow == "server":
        print(f"  at most {max(c.most() for c in conns)} bytes of one could be sent, kernels and all")
    # The agent keeps the first bytes of a body until its reply begins, to send them again.
    kept = {"agent": 16 << 10}
    expect("of which memory is not bounded",
           [name for name in pids if after[name] - before[name] >= N * (most + kept.get(name, 0))], [])
    print("  others: %.2f ms, before %.2f ms" % (late() * 1e3, before_late * 1e3))


try:
    measure()
finally:
    for c in conns:
        c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.s.close()
