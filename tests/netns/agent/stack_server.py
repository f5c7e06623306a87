# SPDX-License-Identifier: Apache-2.0
"""Servers for stack-ends.sh: stack_server.py ADDRESS ADDRESS..., each at port 8001. By path:

  /flood   a reply of 64 MiB
  /unread  reads the head and no more, until the other side ends
  /reset, /reset-body  a reset after the head, or within the reply
  /upgrade goes on as an echo; says bye at the end of the input
  /hold    answers after /release
  /crowd   answers once 80 requests are there
  /close   a reply on a connection that is not kept
  /state   what happened, as JSON; others: "ok"
"""
import collections
import json
import socket
import struct
import sys
import threading
import time

state = collections.Counter()
released = threading.Event()
crowd = threading.Barrier(80)
FLOOD = 64 << 20


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def reply(s, body, fields=b""):
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), fields, body))


def flood(s):
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % FLOOD)
    while state["flood sent"] < FLOOD:
        state["flood sent"] += s.send(b"x" * 65536)


def unread(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    poll = 0
    while not poll:  # the reset shows as an error, without reading
        poll = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        time.sleep(0.02)
    state["unread ended"] += 1


def upgrade(s):
    s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
    while data := s.recv(65536):
        s.sendall(data)
    s.sendall(b"bye")


def answer(s, path):
    """Returns true if the connection is kept."""
    state[path] += 1
    if path == "/state":
        reply(s, json.dumps(state).encode())
    elif path in ("/flood", "/unread", "/upgrade"):
        {"/flood": flood, "/unread": unread, "/upgrade": upgrade}[path](s)
        return False
    elif path == "/reset":
        reset(s)
        return False
    elif path == "/reset-body":
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789")
        time.sleep(0.05)
        reset(s)
        return False
    elif path == "/close":
        reply(s, b"closes", b"Connection: close\r\n")
        s.recv(1)
        return False
    else:
        if path == "/release":
            released.set()
        if path == "/hold":
            released.wait()
        if path == "/crowd":
            crowd.wait()
        reply(s, b"ok")
    return True


def serve(s):
    try:
        buf = b""
        while True:
            while b"\r\n\r\n" not in buf:
                data = s.recv(65536)
                if not data:
                    return
                buf += data
            head, buf = buf.split(b"\r\n\r\n", 1)
            path = head.split(b" ")[1].decode()
            if not answer(s, path):
                return
    except OSError:
        state["reset by peer"] += 1
    finally:
        s.close()


def listen(address):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, 8001))
    s.listen(1000)
    while True:
        threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()


for a in sys.argv[1:]:
    threading.Thread(target=listen, args=(a,), daemon=True).start()
print("listening", flush=True)
threading.Event().wait()
