# SPDX-License-Identifier: Apache-2.0
"""ratio.py ROUNDS NAMESPACE [ATTACK...]: prints how much each attack raises the 99th percentile of an honest client.

Each round of an attack measures a window without it, a window beside it, and a window without it. The round's ratio is the
p99 beside the attack over the mean of the p99 around it. A kernel's server beside the gateway gets the same requests:
its ratio says what the host alone did. An attack that does not get under way in 20 s is measured as far as it came.
"""
import multiprocessing
import os
import resource
import statistics
import sys
import time

import attacks
from attacks import END_HEADERS, END_STREAM, GROUPS, HEADERS, TCP_MAXSEG, Flood, SlowReader, frame, h2, head, hold
from client import FAMILIES, HOST, SMALL, Victim, p99, serve_plainly, start

UNDER_WAY_S, REST_S, AIM = 20, 0.5, 5
WINDOW_S = float(os.environ.get("WINDOW", "1"))


class UnreadSmallSegments(SlowReader):
    """Replies of 400 KB each that are not read, in segments of the smallest size; eight connections a second start again."""
    count, rate = 40, 8
    options = [(attacks.socket.IPPROTO_TCP, TCP_MAXSEG, 88)]

    def begin(self):
        s = self.dial()
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n" + b"x" * 400000)
        return s

    def keep(self, s):
        s.close()
        raise EOFError


class HpackBomb(Flood):
    """Requests with a thousand references to an entry of 4,000 bytes."""
    count, rate, burst, trips = 100, 200, 1, False
    FIRST = b"\x82\x86\x84\x01\x01a"

    def begin(self):
        s = self.dial()
        s.settimeout(0.2)
        s.sendall(h2() + frame(HEADERS, END_HEADERS | END_STREAM, 1, self.FIRST + b"\x40\x01a\x7f\xa1\x1e" + b"a" * 4000))
        self.streams[s] = 3
        return s

    def part(self, stream):
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, self.FIRST + b"\xbe" * 1000)


def all_attacks():
    return (UnreadSmallSegments, HpackBomb) + tuple(a for group in GROUPS.values() for a in group)


def window(victim):
    samples = victim.window(WINDOW_S)
    return p99(samples[SMALL]), p99(samples[HOST])


def measure(kind, where, namespace, victim):
    """Returns p99 beside the attack, that around it, and the host's ratio."""
    before = window(victim)
    begun = multiprocessing.Value("i", 0)
    attack = start(hold, kind(*where), begun, namespace)
    until = time.monotonic() + UNDER_WAY_S
    while begun.value < kind.count and time.monotonic() < until:
        time.sleep(0.05)
    held = window(victim)
    attack.terminate()
    attack.join(10)
    attack.kill()
    attack.join()
    time.sleep(REST_S)
    after = window(victim)
    calm, host = ((before[i] + after[i]) / 2 for i in (0, 1))
    return held[0], calm, held[1] / host


def main():
    rounds, namespace = int(sys.argv[1]), "/run/netns/" + sys.argv[2]
    kinds = [a for a in all_attacks() if len(sys.argv) == 3 or a.__name__ in sys.argv[3:]]
    target, victim_source, attacker_source, by_hand = FAMILIES["4"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
    victim, ready = Victim(target, victim_source), multiprocessing.Event()
    plain = start(serve_plainly, namespace, target, ready)
    ready.wait(20)
    window(victim)
    rows = {kind: [] for kind in kinds}
    for n in range(rounds):
        for i, kind in enumerate(kinds):
            where = (target, attacker_source(i % 10), victim_source, by_hand(n * len(kinds) + i & 31))
            rows[kind].append(measure(kind, where, namespace, victim))
    plain.kill()
    print(f"{'attack':20} {'p99 ms':>7} {'without':>8} {'ratio':>6} {'min':>5} {'max':>5} {'host':>5}")
    above = 0
    for kind, row in rows.items():
        held, calm, host = (statistics.median(r[i] for r in row) for i in range(3))
        ratios = sorted(r[0] / r[1] for r in row)
        ratio = statistics.median(ratios)
        above += ratio > AIM
        print(f"{kind.__name__:20} {held:7.1f} {calm:8.1f} {ratio:6.1f} {ratios[0]:5.1f} {ratios[-1]:5.1f} {host:5.1f}")
    print(f"{above} of {len(rows)} attacks above {AIM}; {len(victim.wrong)} requests of the honest client failed")
    print("\n".join(victim.wrong[:5]))


main()
