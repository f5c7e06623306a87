# SPDX-License-Identifier: Apache-2.0
"""Frames that no client library sends, until the gateway says GOAWAY. Usage: frames.py --list | ADDRESS CASE"""
import socket
import sys

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GET, POST = b"\x82\x86\x84\x41\x01a", b"\x83\x86\x04\x05/echo\x41\x01a"
PROTOCOL_ERROR, STREAM_CLOSED, ENHANCE_YOUR_CALM = 1, 5, 11


def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def get(stream):
    return frame(1, 5, stream, GET)


def again(*parts):
    """A fault on each of 3000 streams."""
    return OPEN + b"".join(part(n) for n in range(1, 6001, 2) for part in parts)


OPEN = PREFACE + frame(4, 0, 0)
# Bytes to send, in pieces: a piece that ends with a request is followed by a wait for its reply.
CASES = {
    "no preface": (PROTOCOL_ERROR, [PREFACE.replace(b"SM", b"XX") + frame(4, 0, 0)]),
    "no SETTINGS": (PROTOCOL_ERROR, [PREFACE + get(1)]),
    "DATA behind END_STREAM": (STREAM_CLOSED, [OPEN + get(1), frame(0, 1, 1, b"a")]),
    "HEADERS behind END_STREAM": (STREAM_CLOSED, [OPEN + get(1), get(1)]),
    "DATA behind RST_STREAM": (STREAM_CLOSED, [OPEN + frame(1, 4, 1, POST) + frame(3, 0, 1, bytes(4)), frame(0, 1, 1, b"a")]),
    "HEADERS behind RST_STREAM": (STREAM_CLOSED, [OPEN + frame(1, 4, 1, POST) + frame(3, 0, 1, bytes(4)), get(1)]),
    "a lower number": (PROTOCOL_ERROR, [OPEN + get(5), get(3)]),
    "PRIORITY on itself": (PROTOCOL_ERROR, [OPEN + frame(2, 0, 3, b"\0\0\0\x03\x10")]),
    "HEADERS on itself": (PROTOCOL_ERROR, [OPEN + frame(1, 37, 1, b"\0\0\0\x01\x10" + GET)]),
    "resets by a window": (ENHANCE_YOUR_CALM, [again(get, lambda n: frame(8, 0, n, b"\x7f\xff\xff\xff"))]),
    "padded DATA without data": (ENHANCE_YOUR_CALM, [OPEN + frame(1, 4, 1, POST) + frame(0, 8, 1, b"\0") * 20000]),
    "WINDOW_UPDATEs for nothing": (ENHANCE_YOUR_CALM, [OPEN + frame(8, 0, 0, b"\0\0\0\1") * 20000]),
    "a head of 4 MB in 5 KB": (ENHANCE_YOUR_CALM, [OPEN + frame(1, 5, 1, GET + b"\x40\x01t\x7f\xa1\x1e" + b"a" * 4000 + b"\xbe" * 1000)]),
    "resets by a length": (ENHANCE_YOUR_CALM, [again(lambda n: frame(1, 4, n, POST + b"\x0f\x0d\x015"), lambda n: frame(0, 1, n, b"a"))]),
}


class Connection:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, port), timeout=30)
        self.data = b""

    def send(self, data):
        try:
            self.socket.sendall(data)
        except ConnectionError:
            pass  # it has been told already

    def read_to(self, kind):
        """The payload of the next frame of that kind."""
        while True:
            while len(self.data) < 9 or len(self.data) < 9 + int.from_bytes(self.data[:3], "big"):
                more = self.socket.recv(65536)
                assert more, "closed without a word"
                self.data += more
            n, found = int.from_bytes(self.data[:3], "big"), self.data[3]
            body, self.data = self.data[9:9 + n], self.data[9 + n:]
            if found == kind:
                return body


def main():
    if sys.argv[1] == "--list":
        print("\n".join(CASES))
        return
    code, pieces = CASES[sys.argv[2]]
    c = Connection(sys.argv[1])
    for piece in pieces[:-1]:
        c.send(piece)
        if piece.endswith(GET):
            c.read_to(0)
    c.send(pieces[-1])
    goaway = c.read_to(7)
    assert int.from_bytes(goaway[4:8], "big") == code, goaway


main()
