# SPDX-License-Identifier: Apache-2.0
"""A server for the agent's tests, by hand: server.py ADDRESS:PORT | unix:PATH

Says what it was asked, byte by byte, and misbehaves where its path asks for that. Each connection has a
number, each request one of its connection; both are told in fields of the reply. How many requests of /slow and
how many connections there were at a time, at the most, is told by /most.
"""
import hashlib
import os
import socket
import sys
import threading
import time

conns = 0
lock = threading.Lock()
go_on = threading.Semaphore(0)  # for one more event, or one that is held
counts = {}  # path -> requests seen
slow_order = []  # their paths
gone = {}  # path -> when the client's side closed
slow = most_slow = opened = most_opened = 0  # at a time


def chunked(*parts, trailers=b""):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n" + trailers + b"\r\n"


MALFORMED = {
    "both": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhix",
    "status": b"HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\nhi",
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
    "nul": b"HTTP/1.1 200 OK\r\nA: b\x00c\r\nContent-Length: 2\r\n\r\nhi",
    "fold": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nhi",
    "switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "chunk-size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhi\r\n0\r\n\r\n",
    "coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "huge-head": b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70000 + b"\r\n\r\n",
    "many-fields": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300 + b"Content-Length: 0\r\n\r\n",
    "cut-head": b"HTTP/1.1 200 OK\r\nContent-Le",
}
ODD = {
    "204-chunked": b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "204-length": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "304-chunked": b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
    "head": b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n",
    "blanks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 ; a = b\r\nhello\r\n1   \r\n!\r\n0 \r\n\r\n",
    "lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2, 2\r\n\r\nhi",
    "reason": b"HTTP/1.1 404 Not here\r\nServer: odd/1\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 0\r\n\r\n",
    "many-fields": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 250 + b"Content-Length: 2\r\n\r\nhi",
    "large-field": b"HTTP/1.1 200 OK\r\nA: " + b"x" * 65000 + b"\r\nContent-Length: 2\r\n\r\nhi",
    "large-fields": b"HTTP/1.1 200 OK\r\n" + b"A: %s\r\n" % (b"x" * 480) * 130 + b"Content-Length: 2\r\n\r\nhi",
    "no-reason": b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi",
}
BROKEN = {
    "cut-length": b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 100000,
    "cut-chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "cut-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello",
    "cut-end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
}


class Conn(threading.Thread):
    def __init__(self, s, number):
        super().__init__(daemon=True)
        self.s, self.number, self.buf, self.asked = s, number, bytearray(), 0

    def more(self):
        data = self.s.recv(1 << 16)
        if not data:
            raise EOFError
        self.buf += data

    def until(self, mark):
        while mark not in self.buf:
            self.more()
        at = self.buf.index(mark) + len(mark)
        out = bytes(self.buf[:at])
        del self.buf[:at]
        return out

    def reply(self, status, body, *fields, head=False, flags=0):
        lines = [b"HTTP/1.1 %s" % status, b"Content-Length: %d" % len(body), b"X-Conn: %d" % self.number,
                 b"X-Asked: %d" % self.asked, *fields]
        self.s.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if head else body), flags)

    def wait_until_gone(self, path):
        """The other side closes, which is noted."""
        self.s.settimeout(30)
        try:
            while self.s.recv(1000):
                pass
        except OSError:
            pass
        gone[path] = time.monotonic()

    def answer(self, head, method, target, body):
        global slow, most_slow
        path = target.split(b"?")[0].decode()
        name = path.rsplit("/", 1)[-1]
        if path.startswith("/malformed/"):
            self.s.sendall(MALFORMED[name])
            return False
        if path.startswith("/odd/"):
            self.s.sendall(ODD[name])
            return True
        if path.startswith("/broken/"):
            self.s.sendall(BROKEN[name])
            return False
        if path == "/head":
            self.reply(b"200 OK", head, b"Content-Type: text/plain")
        elif path == "/echo":
            self.reply(b"200 OK", body)
        elif path == "/sum":
            self.reply(b"200 OK", hashlib.sha256(body).hexdigest().encode())
        elif path == "/count":
            self.reply(b"200 OK", b"%d" % counts.get(target.split(b"?")[1].decode(), 0))
        elif path == "/gone":
            t = gone.get(target.split(b"?")[1].decode())
            self.reply(b"200 OK", b"" if t is None else b"%.6f" % t)
        elif path == "/bytes":
            n = int(target.split(b"?")[1])
            self.reply(b"200 OK", (b"0123456789abcdef" * (n // 16 + 1))[:n], head=method == b"HEAD")
        elif path == "/chunks":
            self.s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
            for part in (b"a" * 10, b"b" * 70000, b"c"):
                self.s.sendall(b"%x;ext=1\r\n%s\r\n" % (len(part), part))
                time.sleep(0.02)
            self.s.sendall(b"0\r\nX-Sum: 70011\r\nContent-Length: 3\r\n\r\n")
        elif path == "/until-close":
            self.s.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"z" * 100000)
            return False
        elif path == "/close":
            self.reply(b"200 OK", b"bye", b"Connection: close")
            return False
        elif path == "/interim":
            self.s.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            self.reply(b"200 OK", b"final")
        elif path == "/no-content":
            self.s.sendall(b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n")
        elif path == "/not-modified":
            self.s.sendall(b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 77\r\n\r\n")
        elif path == "/redirect":
            self.reply(b"302 Found", b"", b"Location: http://elsewhere/x?y=%20")
        elif path == "/cookies":
            self.reply(b"200 OK", b"", b"Set-Cookie: a=1; Path=/", b"Set-Cookie: b=2; HttpOnly",
                       b"Connection: x-hop", b"X-Hop: no", b"Keep-Alive: timeout=5")
        elif path == "/excess":
            forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
            if target.endswith(b"?together"):
                self.s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none" + forged)
            else:
                self.reply(b"200 OK", b"one")
                self.s.sendall(forged)
        elif path.startswith("/vanish/"):  # each first request of a path ends its connection unanswered
            if counts[path] == 1:
                return False
            self.reply(b"200 OK", b"again")
        elif path == "/idle-close":  # closes the kept connection behind its reply
            # In one packet with the reply: bytes between the two are lost, for any proxy.
            self.reply(b"200 OK", b"kept?", flags=socket.MSG_MORE)
            return False
        elif path.startswith("/early"):  # answers before it has read
            # Notified first: the next client of this connection may lose its request to the end.
            self.reply(b"413 Too Large", b"early", b"Connection: close")
            return False
        elif path.startswith("/wait/"):
            self.wait_until_gone(path)
            return False
        elif path.startswith("/slow"):
            with lock:
                slow_order.append(path)
                slow += 1
                most_slow = max(most_slow, slow)
            time.sleep(float(target.split(b"?")[1]))
            with lock:
                slow -= 1
            self.reply(b"200 OK", b"slow")
        elif path == "/most":
            self.reply(b"200 OK", b"%d %d" % (most_slow, most_opened))
        elif path == "/order-of-slow":
            self.reply(b"200 OK", " ".join(slow_order).encode())
        elif path == "/held":
            if not go_on.acquire(timeout=60):
                return False
            self.reply(b"200 OK", b"held")
        elif path == "/next-event":
            go_on.release()
            self.reply(b"200 OK", b"")
        elif path == "/events":
            self.s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n")
            for i in range(3):
                event = b"data: %d %.6f\n\n" % (i, time.monotonic())
                self.s.sendall(b"%x\r\n%s\r\n" % (len(event), event))
                if not go_on.acquire(timeout=60):
                    return False
            self.s.sendall(b"0\r\n\r\n")
        else:
            self.reply(b"404 Not Found", b"no such path: " + target)
        return True

    def one(self):
        head = self.until(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].split(b" ")
        fields = [l.split(b":", 1) for l in head.split(b"\r\n")[1:] if l]
        lengths = [int(v) for k, v in fields if k.lower() == b"content-length"]
        assert not any(k.lower() == b"transfer-encoding" for k, v in fields)
        self.asked += 1
        path = target.split(b"?")[0].decode()
        with lock:
            counts[path] = counts.get(path, 0) + 1
        if path.startswith("/early"):
            return self.answer(head, method, target, b"")
        length = lengths[0] if lengths else 0
        while len(self.buf) < length:
            self.more()
        body = bytes(self.buf[:length])
        del self.buf[:length]
        return self.answer(head, method, target, body)

    def run(self):
        global opened, most_opened
        with lock:
            opened += 1
            most_opened = max(most_opened, opened)
        try:
            while self.one():
                pass
            self.s.shutdown(socket.SHUT_WR)
            time.sleep(0.05)
        except (EOFError, OSError):
            pass
        with lock:
            opened -= 1
        self.s.close()


def main():
    global conns
    where = sys.argv[1]
    if where.startswith("unix:"):
        s = socket.socket(socket.AF_UNIX)
        if os.path.exists(where[5:]):
            os.unlink(where[5:])
        s.bind(where[5:])
        os.chmod(where[5:], 0o666)
    else:
        host, port = where.rsplit(":", 1)
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((host, int(port)))
    s.listen(1024)
    print("listening", flush=True)
    while True:
        c, _ = s.accept()
        if not where.startswith("unix:"):
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conns += 1
        Conn(c, conns).start()


main()
