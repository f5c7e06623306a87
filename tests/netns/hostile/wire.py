# SPDX-License-Identifier: Apache-2.0
"""TCP by hand, from an address that no kernel here answers for: what is sent is this, and what comes back ends no connection."""
import ctypes
import errno
import ipaddress
import os
import random
import select
import socket
import struct
import time

SYN, RST, PSH, ACK = 2, 4, 8, 16
ETHERTYPE = {4: 0x0800, 6: 0x86DD}
SO_ATTACH_FILTER = 26
SCALE = 7  # scale of our window


def interface():
    """The wire to the gateway."""
    return next(name for _, name in socket.if_nameindex() if name != "lo")


def attach_filter(s, version, address, port):
    """Only what is for this address (its last 32 bits) and port."""
    host, transport = (16, 22) if version == 4 else (36, 42)
    code = [(0x20, 0, 0, host), (0x15, 0, 3, int(address) & 0xFFFFFFFF), (0x28, 0, 0, transport), (0x15, 0, 1, port),
            (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *op) for op in code))
    s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(code), ctypes.addressof(program)))


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2 + len(data) % 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Wire:
    def __init__(self, target, port, source):
        self.target, self.source = ipaddress.ip_address(target), ipaddress.ip_address(source)
        self.version, self.port, self.own = self.target.version, port, random.randrange(1024, 65000)
        protocol, name = ETHERTYPE[self.version], interface()
        self.s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        attach_filter(self.s, self.version, self.source, self.own)
        self.s.bind((name, protocol))
        self.to = (name, protocol, 0, 0, bytes.fromhex(os.environ["GATEWAY_MAC"].replace(":", "")))
        self.seq, self.ack, self.acked = random.getrandbits(32), 0, 0

    def close(self):
        self.s.close()

    def reset(self):
        """Tells the end, then probes: a peer without that connection answers by a reset."""
        self.put(self.packet(RST | ACK))
        self.put(self.packet(ACK))

    def is_gone(self):
        try:
            while self.get(0):
                pass
        except EOFError:
            return True
        return False

    def packet(self, flags, payload=b"", ahead=0, options=b""):
        """A segment `ahead` of what was sent in order."""
        seq = (self.seq + ahead) & 0xFFFFFFFF
        head = struct.pack("!HHIIBBHHH", self.own, self.port, seq, self.ack if flags & ACK else 0,
                           (20 + len(options)) << 2, flags, 0xFFFF, 0, 0)
        tcp = head + options + payload
        pseudo = self.source.packed + self.target.packed + struct.pack("!II", len(tcp), socket.IPPROTO_TCP)
        tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
        if self.version == 6:
            return struct.pack("!IHBB", 6 << 28, len(tcp), socket.IPPROTO_TCP, 64) + pseudo[:32] + tcp
        ip = struct.pack("!BBHIBBH", 0x45, 0, 20 + len(tcp), 0, 64, socket.IPPROTO_TCP, 0) + pseudo[:8]
        return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + tcp

    def put(self, packet):
        """A full wire loses it, as wires do."""
        try:
            self.s.sendto(packet, self.to)
        except OSError as e:
            if e.errno != errno.ENOBUFS:
                raise

    def get(self, seconds):
        """The next segment: flags, sequence number, payload. None: there was none in that time."""
        if not select.select([self.s], [], [], seconds)[0]:
            return None
        packet = self.s.recv(1 << 16)
        # the other kernel's pieces (GRO) are our segments all the same
        length = struct.unpack("!H", packet[2:4])[0] if self.version == 4 else 40 + struct.unpack("!H", packet[4:6])[0]
        tcp = packet[20 if self.version == 4 else 40:length]
        seq, acked = struct.unpack("!II", tcp[4:12])
        if tcp[13] & RST:
            raise EOFError
        if tcp[13] & ACK:
            self.acked = acked
        return tcp[13], seq, tcp[(tcp[12] >> 4) * 4:]

    def open(self, mss):
        """MSS, SACK permitted, window scale; no timestamps, so that a segment can be sent again as it is."""
        options = struct.pack("!BBHBBBBBB", 2, 4, mss, 4, 2, 3, 3, SCALE, 1) + b"\1\1"
        self.put(self.packet(SYN, options=options[:12]))
        until = time.monotonic() + 3
        while time.monotonic() < until:
            got = self.get(0.5)
            if got and got[0] & SYN:
                self.seq, self.ack = (self.seq + 1) & 0xFFFFFFFF, (got[1] + 1) & 0xFFFFFFFF
                self.put(self.packet(ACK))
                return
        raise EOFError

    def write(self, data, each=1400, at_once=32):
        """In order; waits for what was sent to be acknowledged now and then, and repeats what was lost."""
        begin, sent, until = self.seq, 0, time.monotonic() + 10
        while sent < len(data):
            for at in range(sent, min(len(data), sent + each * at_once), each):
                self.seq = (begin + at) & 0xFFFFFFFF
                self.put(self.packet(ACK | PSH, data[at:at + each]))
            self.seq = (begin + min(len(data), sent + each * at_once)) & 0xFFFFFFFF
            while self.acked != self.seq and self.get(0.2):
                pass
            came = (self.acked - begin) & 0xFFFFFFFF
            sent = came if came <= len(data) else sent
            if time.monotonic() > until:
                raise EOFError
        self.seq = (begin + len(data)) & 0xFFFFFFFF

    def take(self, length):
        """Acknowledges so many bytes in order, each segment, so that the sender's window opens."""
        end, until = (self.ack + length) & 0xFFFFFFFF, time.monotonic() + 10
        while (end - self.ack) & 0x80000000 == 0 and end != self.ack:
            got = self.get(0.5)
            if got and got[1] == self.ack and got[2]:
                self.ack = (self.ack + len(got[2])) & 0xFFFFFFFF
            self.put(self.packet(ACK))
            if time.monotonic() > until:
                raise EOFError

    def latest(self, seconds):
        """Where what comes ends, without any word about it."""
        end = self.ack
        while got := self.get(seconds):
            after = (got[1] + len(got[2])) & 0xFFFFFFFF
            end = after if (after - end) & 0x80000000 == 0 else end
        return end


def reset_all(wires, seconds=8):
    """There is no kernel that does it when a process ends, or that says it again where it was lost."""
    left, until = list(wires), time.monotonic() + seconds
    while left and time.monotonic() < until:
        for w in left:
            w.reset()
        time.sleep(0.1)
        left = [w for w in left if not w.is_gone()]
