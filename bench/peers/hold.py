# SPDX-License-Identifier: Apache-2.0
"""hold.py ADDRESS PORT CONNECTIONS SOURCE: opens that many connections from one address, asks once on each, prints
"held N", and holds them until it is ended."""
import resource
import select
import signal
import socket
import sys

AT_ONCE = 256
IP_BIND_ADDRESS_NO_PORT = 24
REQUEST = b"GET / HTTP/1.1\r\nHost: hold\r\n\r\n"


def begin(source, target):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    s.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    s.bind((source, 0))
    s.connect_ex(target)
    return s


def hold(target, count, source):
    poll, pending, held, started = select.epoll(), {}, [], 0
    while len(held) < count:
        while started < count and len(pending) < AT_ONCE:
            s = begin(source, target)
            pending[s.fileno()] = s
            poll.register(s, select.EPOLLOUT)
            started += 1
        events = poll.poll(20)
        if not events:
            sys.exit(f"no answer on {len(pending)} connections; {len(held)} are held")
        for fd, event in events:
            s = pending[fd]
            if event & select.EPOLLOUT:
                s.send(REQUEST)
                poll.modify(s, select.EPOLLIN)
            elif s.recv(4096).startswith(b"HTTP/1.1 "):  # answered, whatever the answer: idle from now on
                poll.unregister(s)
                held.append(pending.pop(fd))
            else:
                sys.exit(f"connection {len(held)}: closed without an answer")
    return held


def main():
    address, port, count, source = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = hold((address, port), count, source)
    print(f"held {len(held)}", flush=True)
    signal.pause()


main()
