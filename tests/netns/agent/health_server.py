# SPDX-License-Identifier: Apache-2.0
"""A server whose health the test sets: health_server.py ADDRESS:PORT NAME FOLDER

Each reply has the server's name. FOLDER/NAME.status, if it exists, is the status of replies to
requests, FOLDER/NAME.health that of /healthz. A status of 0 closes the connection instead.
FOLDER/NAME.probes grows by a byte for each request to /healthz.
"""
import os
import socket
import sys
import threading

address, name, folder = sys.argv[1:]


def status_of(kind):
    try:
        with open(f"{folder}/{name}.{kind}") as f:
            return int(f.read())
    except (OSError, ValueError):
        return 200


def serve(conn):
    buf = b""
    while True:
        while b"\r\n\r\n" not in buf:
            more = conn.recv(65536)
            if not more:
                return
            buf += more
        head, buf = buf.split(b"\r\n\r\n", 1)
        fields = dict(l.lower().split(b": ", 1) for l in head.split(b"\r\n")[1:])
        left = int(fields.get(b"content-length", 0))
        while len(buf) < left:
            buf += conn.recv(65536)
        buf = buf[left:]
        probe = head.split(b" ")[1] == b"/healthz"
        if probe:
            with open(f"{folder}/{name}.probes", "a") as f:
                f.write(".")
        status = status_of("health" if probe else "status")
        if not status:
            return
        conn.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(name), name.encode()))


def run(conn):
    try:
        serve(conn)
    except OSError:
        pass
    conn.close()


s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
host, port = address.rsplit(":", 1)
s.bind((host, int(port)))
s.listen(256)
print("listening", flush=True)
while True:
    threading.Thread(target=run, args=(s.accept()[0],), daemon=True).start()
