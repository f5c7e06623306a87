# SPDX-License-Identifier: Apache-2.0
"""vlan_syn.py IFACE GATEWAY-MAC [TAG...]: one SYN with these VLAN tags, from an unused address.

Prints the VLAN with which the SYN-ACK comes, "untagged", or "silence". The kernel needs no 8021q for it.
"""
import os
import socket
import struct
import sys
import time

PACKET_AUXDATA, SOL_PACKET, STATUS_VLAN_VALID = 8, 263, 1 << 4
SYN, RST = 2, 4
SRC, DST, PORT = "10.99.0.77", "10.99.0.1", 8080


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    s = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while s >> 16:
        s = (s & 0xFFFF) + (s >> 16)
    return ~s & 0xFFFF


def segment(sport, seq, flags):
    src, dst = socket.inet_aton(SRC), socket.inet_aton(DST)
    tcp = struct.pack("!HHIIBBHHH", sport, PORT, seq, 0, 0x50, flags, 65535, 0, 0)
    tcp = tcp[:16] + struct.pack("!H", checksum(src + dst + struct.pack("!BBH", 0, 6, len(tcp)) + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0, src, dst)
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + tcp


def vlan_of(frame, ancillary):
    for level, kind, data in ancillary:
        if level == SOL_PACKET and kind == PACKET_AUXDATA:
            status, _, _, _, _, tci, _ = struct.unpack("IIIHHHH", data[:20])
            if status & STATUS_VLAN_VALID:
                return str(tci & 0xFFF), frame[12:]
    if frame[12:14] == b"\x81\x00":
        return str(struct.unpack("!H", frame[14:16])[0] & 0xFFF), frame[16:]
    return "untagged", frame[12:]


def main():
    iface, mac, tags = sys.argv[1], bytes.fromhex(sys.argv[2].replace(":", "")), sys.argv[3:]
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    s.bind((iface, 0))
    own = s.getsockname()[4]
    sport = 20000 + os.getpid() % 20000
    head = mac + own + b"".join(struct.pack("!HH", 0x8100, int(t)) for t in tags) + b"\x08\x00"
    s.send(head + segment(sport, 1000, SYN))
    until = time.monotonic() + 3
    while time.monotonic() < until:
        s.settimeout(max(0.01, until - time.monotonic()))
        try:
            frame, ancillary, _, _ = s.recvmsg(2048, 256)
        except TimeoutError:
            break
        vlan, rest = vlan_of(frame, ancillary)
        if rest[:3] == b"\x08\x00\x45" and rest[22:24] == struct.pack("!H", PORT) and \
                rest[24:26] == struct.pack("!H", sport) and rest[35] & 0x12 == 0x12:
            print(vlan)
            s.send(head + segment(sport, 1001, RST))
            return
    print("silence")


main()
