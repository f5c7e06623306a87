#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client for the datagrams of include/sluice/datagram.h in plain Python: the example, and what the tests ask with.

    datagram_client.py ADDRESS PORT SERVICE [METHOD] < request > reply
"""
import collections
import enum
import random
import socket
import struct
import sys
import time

HEAD = struct.Struct("<IBBHQIHH")  # request: magic version type service id deadline_us method_len payload_len
MAGIC, VERSION, REQUEST, REPLY = 0x47444C53, 1, 1, 2
PATH = 1472  # UDP payload that an MTU of 1500 takes over IPv4

Reply = collections.namedtuple("Reply", "status code payload service_us")


class Status(enum.IntEnum):
    OK, VERSION, NO_SERVICE, TOO_LARGE, REPLY_TOO_LARGE, OVERLOADED, EXPIRED, UNAVAILABLE, INTERNAL = range(9)


def encode(service, payload=b"", method=b"", deadline_us=0, reply_len=0, id=None, version=VERSION):
    """A request, padded so that a reply with reply_len bytes of payload may come."""
    id = random.getrandbits(64) if id is None else id
    head = HEAD.pack(MAGIC, version, REQUEST, service, id, deadline_us, len(method), len(payload))
    return (head + method + payload).ljust(min(HEAD.size + reply_len, PATH), b"\0")


def decode(datagram, id):
    """None: that is no reply to the request of this id."""
    if len(datagram) < HEAD.size:
        return None
    magic, version, type, status, of, service_us, code, length = HEAD.unpack_from(datagram)
    if magic != MAGIC or type != REPLY or of != id or length != len(datagram) - HEAD.size or status > max(Status):
        return None
    return Reply(Status(status), code, datagram[HEAD.size:], service_us)


class Client:
    """One request at a time. A lost one is sent again with the same id after 0.1, 0.2, 0.4 ... s."""

    def __init__(self, host, port):
        family, type, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        self.socket = socket.socket(family, type)
        self.socket.connect(address)

    def send(self, datagram):
        self.socket.send(datagram)

    def receive(self, id, seconds):
        """The reply to that id, or None when so much time has passed."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                reply = decode(self.socket.recv(65536), id)
            except socket.timeout:
                return None
            except ConnectionRefusedError:  # no listener now; it may start yet
                continue
            if reply:
                return reply
        return None

    def ask(self, service, payload=b"", seconds=5, **kw):
        """A Reply, or TimeoutError."""
        id = random.getrandbits(64)
        request = encode(service, payload, id=id, **kw)
        end, patience = time.monotonic() + seconds, 0.1
        while (left := end - time.monotonic()) > 0:
            self.send(request)
            reply = self.receive(id, min(patience, left))
            if reply:
                return reply
            patience *= 2
        raise TimeoutError("no reply")


def main():
    host, port, service, *method = sys.argv[1:]
    reply = Client(host, port).ask(int(service), sys.stdin.buffer.read(), method="".join(method).encode())
    sys.stdout.buffer.write(reply.payload)
    if reply.status != Status.OK or reply.code >= 400:
        sys.exit(f"{reply.status.name} {reply.code}")


if __name__ == "__main__":
    main()
