# SPDX-License-Identifier: Apache-2.0
"""Slow servers behind an agent: slow_server.py KIND PORT, http-flood, http-deaf, h2c-flood, h2c-deaf. The flood kinds answer
without end at full speed: in HTTP/2 with gRPC messages, which other clients take for bytes. The deaf kinds do not read the
request; in HTTP/2 no more than the first window."""
import selectors
import socket
import sys

DATA, HEADERS, RST, SETTINGS, PING, WINDOW = 0, 1, 3, 4, 6, 8
PIECE = 16384
MESSAGE = b"\0\0\0\0\xfb" + bytes(251)  # a piece has a whole number of them
kind, port = sys.argv[1], int(sys.argv[2])
selector = selectors.DefaultSelector()
unread = []  # connections, which stay open


def frame(what, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([what, flags]) + stream.to_bytes(4, "big") + body


class Conn:
    def __init__(self, s):
        s.setblocking(False)
        self.s, self.got, self.out, self.reads = s, b"", b"", True
        selector.register(s, selectors.EVENT_READ, self)

    def on_event(self, events):
        try:
            if events & selectors.EVENT_READ:
                more = self.s.recv(1 << 16)
                if not more:
                    raise ConnectionResetError
                self.got += more
                self.parse()
            for _ in range(8):  # others have their turn
                self.out = self.out or self.more()
                if not self.out:
                    break
                self.out = self.out[self.s.send(self.out):]
        except BlockingIOError:
            pass
        except (ConnectionResetError, BrokenPipeError):
            selector.unregister(self.s)
            self.s.close()
            return
        if not self.reads:
            selector.unregister(self.s)
            unread.append(self)
            return
        selector.modify(self.s, selectors.EVENT_READ | (selectors.EVENT_WRITE if self.out or self.has_more() else 0), self)


class Http1(Conn):
    begun = False

    def has_more(self):
        return self.begun

    def more(self):
        return bytes(PIECE) if self.begun else b""

    def parse(self):
        if b"\r\n\r\n" in self.got and not self.begun:
            self.reads = kind == "http-flood"
            self.begun = self.reads
            self.out = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 40) if self.begun else b""


class Http2(Conn):
    def __init__(self, s):
        super().__init__(s)
        self.greeted, self.window, self.first, self.left = False, 65535, 65535, {}
        self.out = frame(SETTINGS, 0, 0) + frame(WINDOW, 0, 0, (1 << 30).to_bytes(4, "big"))
        self.on_event(0)

    def has_more(self):
        return self.window >= PIECE and any(n >= PIECE for n in self.left.values())

    def more(self):
        id = next((id for id, n in self.left.items() if n >= PIECE), None) if self.window >= PIECE else None
        if id is None:
            return b""
        self.left[id] = self.left.pop(id) - PIECE  # and goes behind the others
        self.window -= PIECE
        return frame(DATA, 0, id, MESSAGE * (PIECE // len(MESSAGE)))

    def parse(self):
        if not self.greeted and len(self.got) >= 24:
            self.got, self.greeted = self.got[24:], True
        while self.greeted and len(self.got) >= 9 and len(self.got) >= 9 + (n := int.from_bytes(self.got[:3], "big")):
            what, flags, id = self.got[3], self.got[4], int.from_bytes(self.got[5:9], "big")
            body, self.got = self.got[9:9 + n], self.got[9 + n:]
            self.take(what, flags, id, body)

    def take(self, what, flags, id, body):
        if what == SETTINGS and not flags & 1:
            self.first = next((int.from_bytes(body[i + 2:i + 6], "big") for i in range(0, len(body), 6)
                               if body[i:i + 2] == b"\0\4"), self.first)
            self.out += frame(SETTINGS, 1, 0)
        elif what == PING and not flags & 1:
            self.out += frame(PING, 1, 0, body)
        elif what == WINDOW and not id:
            self.window += int.from_bytes(body, "big")
        elif what == WINDOW and id in self.left:
            self.left[id] += int.from_bytes(body, "big")
        elif what == RST:
            self.left.pop(id, None)
        elif what == HEADERS and kind == "h2c-flood":
            self.left[id] = self.first
            self.out += frame(HEADERS, 4, id, b"\x88\x0f\x10\x10application/grpc")


listener = socket.create_server(("127.0.0.1", port), backlog=1024)
listener.setblocking(False)
selector.register(listener, selectors.EVENT_READ, None)
print("listening", flush=True)
while True:
    for key, events in selector.select():
        if key.data:
            key.data.on_event(events)
        else:
            (Http1 if kind.startswith("http") else Http2)(listener.accept()[0])
