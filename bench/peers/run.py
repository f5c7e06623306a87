#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sluice beside nginx and HAProxy: the same client, the same veth, one gateway core, one run.

Two cores: the gateway has core 0; the client and the backends share core 1. The contenders take turns, in another
order each round, each in a fresh process on a fresh veth pair. The last lines are `ratio NAME VALUE`.
"""
import argparse
import os
import pathlib
import signal
import sys

import measure
import report
import svg
from arena import CLIENT_CPU, Arena, Failure
from contenders import Direct, DirectGrpc, HAProxy, Nginx, NginxGrpc, Sluice, SluiceIdle

CLOSED = tuple(f"c{n}" for n in report.CONNECTIONS)
OPEN_CONNECTIONS = 64
# Per cent of nginx's own maximum. Beyond what a contender can do at all, it is not asked.
FRACTIONS = 10, 25, 50, 75, 90, 150, 250, 400
WITHIN = 0.95
WINDOWS = 64, 256

# name -> (what it is, its loads in the first part)
CONTENDERS = {
    "sluice": (lambda a: Sluice(a), (*CLOSED, "wrk64")),
    "nginx": (lambda a: Nginx(a), (*CLOSED, "wrk64")),
    "haproxy": (lambda a: HAProxy(a), (*CLOSED, "wrk64")),
    # Its backend is behind a Unix socket, the closest to sluice's shared memory that it has.
    "nginx-unix": (lambda a: Nginx(a, "unix"), ("c1", "c64")),
    "direct": (lambda a: Direct(a), (*CLOSED, "wrk64")),
}
OPEN = ["sluice", "nginx", "haproxy"]
IDLE = "sluice", "nginx", "haproxy"
GRPC = {"sluice": Sluice, "nginx": NginxGrpc, "direct": DirectGrpc}
GRPC_CALLS = 64


class Bench:
    def __init__(self, options):
        self.o = options
        self.arena = Arena(options)
        self.samples = report.Samples()
        self.out_dir = pathlib.Path(options.out)
        if options.before:
            make = lambda a: Sluice(a, options.before)
            CONTENDERS["before"] = make, (*CLOSED, "wrk64")
            GRPC["before"] = make
            OPEN.append("before")

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def cell(self, contender, load, take):
        try:
            r = take()
        except Failure as e:
            self.say(f"  {contender} {load}: FAILED {e}")
            self.samples.fail(contender, load, str(e).replace("\t", " ").replace("\n", " | "))
            return
        brief = " ".join(f"{k} {report.number(r[k])}" for k in
                         ("requests_per_s", "packets_per_s", "p50", "p99", "idle_cpu", "idle_connection") if k in r)
        self.say(f"  {contender} {load}: {brief} {r.get('note', '')}".rstrip())
        self.samples.add(contender, load, r)

    def with_contender(self, name, make, cells):
        """Starts it, takes its cells in turn, ends it."""
        contender = make(self.arena)
        try:
            self.arena.link()
            contender.start()
        except Failure as e:
            for load, _ in cells:
                self.samples.fail(name, load, str(e).replace("\t", " ").replace("\n", " | "))
            self.say(f"  {name}: FAILED {e}")
            cells = []
        try:
            for load, take in cells:
                self.cell(name, load, lambda: take(contender))
        finally:
            contender.stop()

    def closed_cell(self, load):
        s = self.o.seconds
        if load.startswith("wrk"):
            return load, lambda c: measure.wrk(c, int(load[3:]), s)
        return load, lambda c: measure.load(c, int(load[1:]), s)

    def first_part(self, r):
        names = list(CONTENDERS)
        for name in names[r % len(names):] + names[:r % len(names)]:
            make, loads = CONTENDERS[name]
            cells = [self.closed_cell(x) for x in loads]
            if name in IDLE:
                cells.insert(0, ("idle", lambda c: measure.idle(c, self.o.seconds)))
            self.with_contender(name, make, cells)
        for w in WINDOWS:
            self.arena.link()
            self.cell("ceiling", f"w{w}", lambda: measure.ceiling(self.arena, w, self.o.seconds))

    def grpc_part(self, r):
        names = list(GRPC)
        for name in names[r % len(names):] + names[:r % len(names)]:
            self.with_contender(name, GRPC[name], [(f"grpc_c{GRPC_CALLS}", lambda c: measure.grpc(
                c, GRPC_CALLS, self.o.seconds))])

    def maximum(self, name):
        return max((self.samples.median(name, c, "requests_per_s") or 0 for c in CLOSED), default=0)

    def open_part(self, r):
        base = self.maximum("nginx")
        if not base:
            return
        names = list(OPEN)
        for name in names[r % len(names):] + names[:r % len(names)]:
            cells = []
            for f in FRACTIONS:
                rate = base * f / 100
                if rate <= WITHIN * self.maximum(name):
                    cells.append((f"open{f}", lambda c, rate=rate:
                                  measure.load(c, OPEN_CONNECTIONS, self.o.seconds, rate)))
            self.with_contender(name, CONTENDERS[name][0], cells)

    def idle_part(self):
        def make(a):
            c = SluiceIdle(a)
            # A sixteenth of the places is for new clients.
            c.values = {"CONNECTIONS": max(65536, (self.o.idle_connections + 1024) * 16 // 15 + 16)}
            return c
        self.with_contender("sluice", make, [("held", lambda c: measure.idle_connections(c, self.o.idle_connections))])

    def run(self):
        self.arena.open()
        for part, title in (self.first_part, "closed loop"), (self.open_part, "open loop"), (self.grpc_part, "gRPC"):
            if self.o.only and not title.startswith(self.o.only):
                continue
            for r in range(self.o.rounds):
                self.say(f"{title}, round {r + 1} of {self.o.rounds}")
                part(r)
        if self.o.idle_connections:
            self.say(f"{self.o.idle_connections} idle connections")
            self.idle_part()

    def finish(self):
        about = report.machine() | {"rounds": self.o.rounds, "seconds": f"{self.o.seconds:g}"}
        if self.o.bound:
            about["bound"] = self.o.bound
        if self.o.realtime_backends:
            about["backends"] = "chrt -r 1"
        self.out_dir.mkdir(parents=True, exist_ok=True)
        report.write_tsv(self.out_dir / "peers.tsv", self.samples, about)
        svg.write(self.out_dir / "peers.svg", self.samples, about)
        for key, value in about.items():
            print(f"# {key}: {value}")
        report.print_table(self.samples)
        print(f"\nwritten: {self.out_dir}/peers.tsv, {self.out_dir}/peers.svg")
        erring = self.samples.erring()
        if erring:
            print("with errors: " + ", ".join(erring))
        report.print_ratios(self.samples)
        if self.o.before:
            report.print_ratios(self.samples, "before")
        return 1 if any(not e.startswith("before ") for e in erring) else 0


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    p.add_argument("--build", default=os.environ.get("BUILD", root / "build"), help="where the programs are")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=4, help="measured time of each cell")
    p.add_argument("--only", choices=("closed", "open", "gRPC"), help="one part; a ratio without its part is none")
    p.add_argument("--idle-connections", type=int, default=100000, help="held open at the end; 0: none")
    p.add_argument("--before", type=pathlib.Path,
                   help="a checkout of another commit, built there: a contender beside the others, with ratios of its own")
    p.add_argument("--bound", help="batch { bound } of sluice, for a busy machine; default: sluice's own")
    p.add_argument("--realtime-backends", action="store_true",
                   help="every backend preempts the client at once (chrt -r 1), with which it shares a core")
    p.add_argument("--out", help="folder of peers.tsv and peers.svg; default bench/results for a run of at least "
                                 "5 rounds of 3 s, else bench/ of the build folder")
    o = p.parse_args()
    if o.rounds < 1 or o.seconds < 1 or o.idle_connections < 0:
        p.error("allowed: at least one round, at least one second, and not less than 0 connections")
    if not o.out:
        full = o.rounds >= 5 and o.seconds >= 3 and not o.only
        o.out = root / "bench/results" if full else pathlib.Path(o.build) / "bench"
    return o


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    o = parse()
    if os.geteuid() != 0 or (os.cpu_count() or 1) < 2:
        sys.exit("peers: needs root and two cores")
    for sig in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(sig, interrupted)
    os.sched_setaffinity(0, {CLIENT_CPU})  # the gateway's core is the gateway's alone
    bench = Bench(o)
    try:
        bench.run()
    except KeyboardInterrupt:
        sys.exit(130)
    except Failure as e:
        sys.exit(f"peers: {e}")
    finally:
        for sig in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            signal.signal(sig, signal.SIG_IGN)
        bench.arena.close()
    sys.exit(bench.finish())


main()
