# SPDX-License-Identifier: Apache-2.0
"""client.py FAMILY SECONDS PID NAMESPACE ATTACK...: runs these attacks (or groups), each from an address of its own, in
IPv6 from all of a /64. A client at another address connects and requests meanwhile, and must be answered each time.

Latencies are compared in two ways. First: the median of the p99 of one-second windows during the attacks, over that of the
windows before and after. Second: the p99 of all samples during the attacks, over that of all others. A kernel server
beside the gateway is asked in the same windows, as a control for the host's load. Each ratio is divided by the control's
slowdown, at most 2. Ratios are printed, not asserted: `make bench-hostile` compares them. NAMESPACE is the gateway's: its
admin endpoint must answer, too.
"""
import contextlib
import multiprocessing
import os
import queue
import resource
import socket
import statistics
import sys
import time
import urllib.request

import datagram_client
from attacks import ADMIN_PORT, DATA, END_STREAM, GROUPS, HEADERS, call, dial, enter, h2, hold
from raw import V4, V6, Client

FAMILIES = {
    "4": (V4, "10.99.0.9/32", lambda i: f"10.99.0.{10 + i}/32", lambda i: f"10.99.0.{200 + i}"),
    "6": (V6, "fd99:0:0:9::/64", lambda i: f"fd99:0:0:{10 + i}::/64", lambda i: f"fd99::{200 + i}"),
}
MIB_EACH = 5  # rounds
PLAIN_PORT, DATAGRAM_SERVICE = 9999, 1
GROWTH_MIB = 64
STALLED_S = 60  # attacks that begin no connection for so long do not get under way
BUSIER_MOST = 2  # more than that the host is not excused
SMALL, LARGE, HOST = range(3)


class Victim:
    def __init__(self, target, source):
        self.target, self.source = target, source
        self.wrong = []

    def connect(self):
        c = Client.__new__(Client)
        c.s, c.buf = dial(self.target, self.source, timeout=15), b""
        return c

    def http1(self, path, body):
        c = self.connect()
        verb = b"POST" if body else b"GET"
        c.send(b"%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (verb, path, len(body)) + body)
        reply = c.reply()
        c.close()
        if reply.status != 200 or reply.body != (body or b"hello\n"):
            raise ValueError(reply)

    def long_head(self):
        """In parts, and longer than a frame."""
        c = self.connect()
        c.send(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"y" * 3000)
        time.sleep(0.01)
        c.send(b"\r\n\r\n")
        status = c.reply().status
        c.close()
        if status != 200:
            raise ValueError(status)

    def health(self):
        c = self.connect()
        c.send(h2() + call(1, b"Check"))
        kind, flags, data = None, 0, b""
        while not (kind in (DATA, HEADERS) and flags & END_STREAM):
            h = c._bytes(9)
            kind, flags, body = h[3], h[4], c._bytes(int.from_bytes(h[:3], "big"))
            data += body if kind == DATA else b""
        c.close()
        if data != b"\0\0\0\0\x02\x08\x01":
            raise ValueError(f"not SERVING: {data}")

    def datagram(self):
        c = datagram_client.Client.__new__(datagram_client.Client)
        c.socket = dial(self.target, self.source, kind=socket.SOCK_DGRAM)
        reply = c.ask(DATAGRAM_SERVICE, b"d" * 64, reply_len=64)
        c.socket.close()
        if reply.status != datagram_client.Status.OK or reply.payload != b"d" * 64:
            raise ValueError(reply)

    def timed(self, name, ask, *args):
        begin = time.monotonic()
        try:
            ask(*args)
        except (OSError, EOFError, ValueError) as e:
            self.wrong.append(f"{name}: {e!r}")
        return time.monotonic() - begin

    def plain(self):
        s = dial(self.target, self.source, timeout=15, port=PLAIN_PORT)
        s.sendall(b"p" * 1024)
        while s.recv(4096):
            pass
        s.close()

    def window(self, seconds=1):
        """Latencies of small requests, of large ones, and of a server that is none of ours."""
        small, large, host, until, n = [], [], [], time.monotonic() + seconds, 0
        while time.monotonic() < until:
            small.append(self.timed("GET", self.http1, b"/", b""))
            small.append(self.timed("POST of 1 KiB", self.http1, b"/echo", b"v" * 1024))
            small.append(self.timed("health", self.health))
            self.timed("a long head", self.long_head)
            self.timed("a datagram", self.datagram)
            if n % MIB_EACH == 0:
                large.append(self.timed("POST of 1 MiB", self.http1, b"/echo", b"V" * (1 << 20)))
            for _ in range(3):
                host.append(self.timed("the host", self.plain))
            n += 1
            time.sleep(0.02)
        return sorted(small), sorted(large), sorted(host)

    def windows(self, n):
        return [self.window() for _ in range(n)]


def p99(samples):
    return samples[len(samples) * 99 // 100] * 1000


def median_ms(windows, size):
    return statistics.median(p99(w[size]) for w in windows)


def all_ms(windows, size):
    return p99(sorted(sample for w in windows for sample in w[size]))


def compare(calm, held):
    """Prints how much slower it was beside the attacks."""
    for how, p99_ms in (("median of windows", median_ms), ("of all", all_ms)):
        busier = max(1, p99_ms(held, HOST) / p99_ms(calm, HOST))
        for size, what in ((SMALL, "small"), (LARGE, "1 MiB")):
            ratio = p99_ms(held, size) / p99_ms(calm, size) / min(busier, BUSIER_MOST)
            print(f"    hostile: {what}: p99 ({how}) {p99_ms(held, size):.1f} ms, undisturbed {p99_ms(calm, size):.1f} ms, "
                  f"the host {busier:.1f} times slower: {ratio:.1f} times")


def rss_mib(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024


def watch_admin(namespace, said):
    """Runs for ever: the requests of probes."""
    enter(namespace)
    while True:
        for path in ("livez", "readyz"):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{ADMIN_PORT}/{path}", timeout=5) as r:
                    said.put((path, r.status))
            except OSError as e:
                said.put((path, repr(e)))
        time.sleep(0.2)


def all_said(said):
    """What has arrived: qsize() also counts what its killed process has not sent."""
    probes = []
    with contextlib.suppress(queue.Empty):
        while True:
            probes.append(said.get(timeout=1))
    return probes


def serve_plainly(namespace, target, ready):
    """Runs for ever, on the kernel's TCP."""
    enter(namespace)
    with socket.create_server((target, PLAIN_PORT), family=socket.AF_INET6 if ":" in target else socket.AF_INET) as s:
        ready.set()
        while True:
            c, _ = s.accept()
            with c:
                c.sendall(c.recv(4096))


def start(*process):
    p = multiprocessing.Process(target=process[0], args=process[1:], daemon=True)
    p.start()
    return p


def wait_until_begun(attacks, begun, victim):
    """Waits while attacks begin connections, however slow the host is. Returns the names of those that stopped early."""
    total, stalled_at = -1, 0
    while any(n.value < a.count for a, n in zip(attacks, begun)):
        if sum(n.value for n in begun) > total:
            total, stalled_at = sum(n.value for n in begun), time.monotonic() + STALLED_S
        elif time.monotonic() > stalled_at:
            break
        victim.window(0.2)
    return [f"{type(a).__name__} ({n.value} of {a.count})" for a, n in zip(attacks, begun) if n.value < a.count]


def main():
    family, seconds, pid, namespace = sys.argv[1], int(sys.argv[2]), sys.argv[3], "/run/netns/" + sys.argv[4]
    names = {a.__name__: a for group in GROUPS.values() for a in group}
    attacks = [a for name in sys.argv[5:] for a in GROUPS.get(name, None) or (names[name],)]
    target, victim_source, attacker_source, by_hand = FAMILIES[family]
    resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
    victim, said = Victim(target, victim_source), multiprocessing.Queue()
    edge = 4 if seconds >= 5 else 1  # so that few samples of 1 MiB are no worse a judge before and behind than beside
    ready = multiprocessing.Event()
    plain = start(serve_plainly, namespace, target, ready)
    ready.wait(20)
    calm, rss = victim.windows(edge), rss_mib(pid)

    begun = [multiprocessing.Value("i", 0) for _ in attacks]
    attacks = [a(target, attacker_source(i), victim_source, by_hand(i)) for i, a in enumerate(attacks)]
    processes = [start(hold, a, begun[i], namespace) for i, a in enumerate(attacks)]
    processes.append(start(watch_admin, namespace, said))
    idle = wait_until_begun(attacks, begun, victim)
    held = victim.windows(seconds)
    grown = rss_mib(pid) - rss
    for p in processes:
        p.terminate()
    for p in processes:
        p.join(10)
        p.kill()
    time.sleep(1)
    calm += victim.windows(edge)
    plain.kill()

    wrong = victim.wrong + [f"{name} does not get under way" for name in idle]
    probes = all_said(said)
    wrong += [f"/{path}: {status}" for path, status in probes if status != 200]
    if not probes:
        wrong.append("no probe of the admin endpoint came back")
    if grown > GROWTH_MIB:
        wrong.append(f"the process grew by {grown:.0f} MiB")
    compare(calm, held)
    if seconds >= 5:
        wrong += [f"{type(a).__name__} was never told to calm down" for a in attacks if a.trips and not a.calmed.value]
    asked = sum(len(w[SMALL]) + len(w[LARGE]) for w in held)
    print(f"    hostile: {' '.join(type(a).__name__ for a in attacks)} over IPv{family}: {asked} requests beside it, "
          f"{len(victim.wrong)} not answered; the process grew by {grown:.0f} MiB")
    print("\n".join(wrong[:10]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
