# SPDX-License-Identifier: Apache-2.0
"""Raw HTTP clients for the netns tests: bytes out, parsed replies in."""
import socket
import sys
import time

V4, V6, PORT = "10.99.0.1", "fd99::1", 8080


def connect(host=V4, port=PORT, timeout=60):
    return socket.create_connection((host, port), timeout=timeout)


class Reply:
    def __init__(self, status, headers, body, closed):
        self.status, self.headers, self.body, self.closed = status, headers, body, closed

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:80]!r}"


class Client:
    """One connection; replies are read one after the other."""

    def __init__(self, host=V4, port=PORT, timeout=60):
        self.s = connect(host, port, timeout)
        self.buf = b""

    def send(self, data):
        self.s.sendall(data)

    def _more(self):
        chunk = self.s.recv(1 << 16)
        if not chunk:
            raise EOFError("closed, with %r left" % self.buf[:200])
        self.buf += chunk

    def _line(self):
        while b"\r\n" not in self.buf:
            self._more()
        line, self.buf = self.buf.split(b"\r\n", 1)
        return line

    def _bytes(self, n):
        if len(self.buf) >= n:
            out, self.buf = self.buf[:n], self.buf[n:]
            return out
        out, self.buf = bytearray(self.buf), b""  # grows in place: a body of 64 MiB is not copied with each chunk
        while len(out) < n:
            chunk = self.s.recv(min(1 << 18, n - len(out)))
            if not chunk:
                raise EOFError("closed, with %r left" % bytes(out[:200]))
            out += chunk
        return bytes(out)

    def reply(self, head_only=False):
        status = int(self._line().split()[1])
        headers = {}
        while True:
            line = self._line()
            if not line:
                break
            k, v = line.split(b":", 1)
            headers[k.decode().lower()] = v.strip().decode()
        if head_only or status in (204, 304) or status < 200:
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                n = int(self._line(), 16)
                body += self._bytes(n)
                self._line()
                if not n:
                    break
        elif "content-length" in headers:
            body = self._bytes(int(headers["content-length"]))
        else:
            body = self.rest()
        return Reply(status, headers, body, headers.get("connection", "") == "close")

    def rest(self):
        """Returns all bytes until the gateway closes; ConnectionResetError counts as that."""
        try:
            while True:
                self._more()
        except (EOFError, ConnectionResetError):
            pass
        out, self.buf = self.buf, b""
        return out

    def close(self):
        self.s.close()


def ask(data, host=V4, head_only=False):
    c = Client(host)
    try:
        c.send(data)
        return c.reply(head_only)
    finally:
        c.close()


def get(path="/", host=V4, headers=""):
    return ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode(), host)


def post(path, body, host=V4, headers=""):
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return ask(head.encode() + body, host)


def expect(name, found, wanted):
    if found != wanted:
        print(f"{name}: found {found!r}, expected {wanted!r}")
        sys.exit(1)


def eventually(seconds, fn):
    until = time.monotonic() + seconds
    while not fn():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
