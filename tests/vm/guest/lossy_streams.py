# SPDX-License-Identifier: Apache-2.0
"""Streams both ways, all at once: lossy_streams.py HOST PORT. Each fails unless what comes back is what was sent."""
import os
import socket
import sys
import threading
import time

import grpc

HOST, PORT = sys.argv[1], int(sys.argv[2])
BYTES, AT_ONCE = 250_000, 2


class Reader:
    def __init__(self, s):
        self.s, self.buf = s, b""

    def line(self):
        while b"\r\n" not in self.buf:
            self.more()
        line, self.buf = self.buf.split(b"\r\n", 1)
        return line

    def take(self, n):
        while len(self.buf) < n:
            self.more()
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def more(self):
        got = self.s.recv(65536)
        assert got, "it ends early"
        self.buf += got

    def head(self):
        lines = [self.line()]
        while lines[-1]:
            lines.append(self.line())
        return lines

    def chunks(self):
        while n := int(self.line(), 16):
            yield self.take(n)
            assert not self.line()
        assert not self.line() and not self.buf


def connect():
    return socket.create_connection((HOST, PORT), timeout=120)


def beside(send):
    """Sends while the caller reads."""
    t = threading.Thread(target=send, daemon=True)
    t.start()
    return t


def chunked(k):
    sent, s = os.urandom(BYTES), connect()

    def send():
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, BYTES, 5000 + k):
            part = sent[at:at + 5000 + k]
            s.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        s.sendall(b"0\r\n\r\n")

    t, r = beside(send), Reader(s)
    assert r.head()[0].startswith(b"HTTP/1.1 200"), "no 200"
    assert b"".join(r.chunks()) == sent, "other bytes"
    t.join()


def events(k):
    words, s = [b"word%d-%d" % (k, i) for i in range(20)], connect()
    text = b" ".join(words)
    s.sendall(b"POST /chat HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    r = Reader(s)
    assert b"Content-Type: text/event-stream" in r.head(), "no events"
    assert b"".join(r.chunks()) == b"".join(b"data: %s\n\n" % w for w in words) * 100, "other events"


def raw(k):
    sent, s = os.urandom(BYTES + k), connect()
    s.sendall(b"GET /raw HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: raw\r\n\r\n")
    r = Reader(s)
    assert r.head()[0].startswith(b"HTTP/1.1 101"), "no 101"
    t = beside(lambda: s.sendall(sent))
    assert r.take(len(sent)) == sent, "other bytes"
    t.join()
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b"", "no end"


def messages(k):
    sent = [os.urandom(n * (k + 1)) for n in (0, 1, 1000, 16379, 65537, 100000)]
    call = channel.stream_stream("/sluice.demo.Echo/Echo")(iter(sent), timeout=200)
    assert list(call) == sent, "other messages"
    assert call.code() == grpc.StatusCode.OK, call.code()


def run(kind, k):
    start = time.monotonic()
    try:
        kind(k)
        print(f"{kind.__name__} {k}: {time.monotonic() - start:.1f} s", flush=True)
    except Exception as e:  # whatever it is, the check fails
        wrong.append(f"{kind.__name__} {k}: {e!r}")


wrong = []
channel = grpc.insecure_channel(f"{HOST}:{PORT}")
threads = [threading.Thread(target=run, args=(kind, k)) for kind in (chunked, events, raw, messages) for k in range(AT_ONCE)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("\n".join(wrong) or None)
