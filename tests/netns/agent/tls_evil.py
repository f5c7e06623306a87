# SPDX-License-Identifier: Apache-2.0
"""Servers with TLS of all kinds on 127.0.0.1, for tls-server.sh: tls_evil.py FOLDER

FOLDER has NAME.pem and NAME.key of each certificate. Port and kind are in KINDS.
"""
import socket
import ssl
import sys
import threading
import time

D = sys.argv[1]
KINDS = {
    9441: "other",     # a certificate of another name
    9442: "stranger",  # of an unknown issuer
    9443: "expired",
    9444: "old",       # TLS 1.2 at most
    9445: "plain",     # no TLS
    9446: "silent",    # no answer to the ClientHello
    9447: "mutual",    # wants a certificate
    9448: "good",      # no ALPN
    9449: "cut",       # closes the connection in the handshake
    9450: "subject",   # the name is in the subject only
    9452: "abrupt",    # one ticket; closes idle connections without close_notify
    9453: "chain",     # wants a certificate
    9454: "dotted",
    9455: "late",
}


def context(kind):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    name = kind if kind in ("other", "stranger", "expired", "subject") else "good"
    c.load_cert_chain(f"{D}/{name}.pem", f"{D}/{name}.key")
    if kind == "old":
        c.maximum_version = ssl.TLSVersion.TLSv1_2
    if kind == "abrupt":
        c.num_tickets = 1
    if kind in ("mutual", "chain"):
        c.verify_mode = ssl.CERT_REQUIRED
        c.load_verify_locations(f"{D}/ca.pem")
    return c


def read_head(s):
    head = b""
    while b"\r\n\r\n" not in head:
        data = s.recv(1 << 16)
        if not data:
            raise EOFError
        head += data
    return head.split(b" ")[1].decode().rsplit("/", 1)[-1]


def serve(s, kind):
    """Answers by path; a body until the end of the connection is whole only with close_notify."""
    while True:
        path = read_head(s)
        if path == "client":
            body = dict(x[0] for x in s.getpeercert()["subject"])["commonName"].encode()
        elif path in ("until-cut", "until-close", "short"):
            length = b"Content-Length: 200000\r\n" if path == "short" else b""
            s.sendall(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n" + b"z" * 100000)
            if path == "until-close":
                s.settimeout(5)
                s.unwrap()
            return
        elif path == "reused":
            body = str(s.session_reused).encode()
        else:
            body = kind.encode()
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        if path == "reused":
            return


def one(s, kind, tls):
    try:
        if kind == "silent":
            time.sleep(60)
            return
        if kind in ("cut", "plain"):
            s.recv(1 << 16)
            s.sendall(b"" if kind == "cut" else b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return
        s = tls.wrap_socket(s, server_side=True)
        serve(s, kind)
    except (OSError, EOFError):
        pass
    finally:
        s.close()


def listen(port, kind):
    at = socket.create_server(("127.0.0.1", port), backlog=64)
    tls = None if kind in ("plain", "silent", "cut") else context(kind)

    def accept():
        while True:
            s, _ = at.accept()
            threading.Thread(target=one, args=(s, kind, tls), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


for port, kind in KINDS.items():
    listen(port, kind)
print("listening", flush=True)
threading.Event().wait()
