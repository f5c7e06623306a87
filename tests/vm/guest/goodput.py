# SPDX-License-Identifier: Apache-2.0
"""Whole downloads, timed: goodput.py serve PORT BYTES | goodput.py fetch HOST PORT BYTES BODY_BYTES

serve: answers each request with that many bytes from the kernel's TCP.

fetch: posts BODY_BYTES to /echo, reads BYTES and prints Mbit/s from the first byte of the reply to the last. Each
opens and closes a connection of its own."""
import os
import socket
import sys
import time


def serve(port, length):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length
    body = os.urandom(1 << 20) * (length // (1 << 20) + 1)
    listener = socket.create_server(("0.0.0.0", port))
    print("ready", flush=True)
    while True:
        s = listener.accept()[0]
        while not s.recv(1 << 18).endswith(b"!"):
            pass
        s.sendall(head + body[:length])
        s.close()


def fetch(host, port, length, body_length):
    s = socket.create_connection((host, port), timeout=120)
    body = b"x" * (body_length - 1) + b"!"
    s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % body_length + body)
    buffer, got, first = bytearray(1 << 18), 0, None
    while n := s.recv_into(buffer):
        first = first or time.monotonic()
        if not got and not buffer.startswith(b"HTTP/1.1 200 "):
            sys.exit("found %r, expected 200" % bytes(buffer[:60]))
        got += n
    took = time.monotonic() - first
    if got < length:
        sys.exit(f"found {got} bytes, expected {length}")
    print("%.3f" % (got * 8 / took / 1e6))


if __name__ == "__main__":
    {"serve": serve, "fetch": fetch}[sys.argv[1]](*(int(a) if a.isdigit() else a for a in sys.argv[2:]))
