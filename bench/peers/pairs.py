#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pairs.py CHECKOUT: sluice of this build beside that of another checkout, built there, with the loads of bench-peers.

Each round starts both, in alternating order, and asks one after the other, so that a pair is seconds apart. Ratios are
this build's over the other's: medians of all rounds with minimum and maximum. A ratio may get worse by 2 %.
ROUNDS (7), SECONDS_EACH (1) and BUILD are read from the environment. Needs root and two cores.
"""
import argparse
import os
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import measure  # noqa: E402
from arena import CLIENT_CPU, Arena, Failure  # noqa: E402
from contenders import Sluice  # noqa: E402
from rows import at_least, at_most, head, pairs, row  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "7"))
SECONDS = float(os.environ.get("SECONDS_EACH", "1"))
RATE = 38000  # as half of nginx's maximum
# load -> (what to measure, metrics: name, unit, whether more is better)
LOADS = {
    "c1": (lambda c: measure.load(c, 1, SECONDS), (("p50", "us", False), ("process_cpu", "us", False))),
    "c64": (lambda c: measure.load(c, 64, SECONDS), (("requests_per_s", "1/s", True), ("process_cpu", "us", False))),
    "c256": (lambda c: measure.load(c, 256, SECONDS), (("requests_per_s", "1/s", True), ("process_cpu", "us", False))),
    "rate": (lambda c: measure.load(c, 64, SECONDS, RATE), (("p99", "us", False), ("process_cpu", "us", False))),
    "wrk64": (lambda c: measure.wrk(c, 64, SECONDS), (("requests_per_s", "1/s", True), ("process_cpu", "us", False))),
    "grpc_c64": (lambda c: measure.grpc(c, 64, SECONDS), (("requests_per_s", "1/s", True),
                                                          ("process_cpu", "us", False))),
}


def one(arena, checkout):
    """Returns load -> measurement of a fresh gateway; a load that fails is missing."""
    contender, got = Sluice(arena, checkout), {}
    arena.link()
    try:
        contender.start()
        for load, (take, _) in LOADS.items():
            try:
                r = take(contender)
                if not r["errors"]:
                    got[load] = r
            except Failure as e:
                print(f"{checkout or 'this build'} {load}: {e}", file=sys.stderr)
    finally:
        contender.stop()
    return got


def main():
    root = HERE.parents[1]
    checkout = pathlib.Path(sys.argv[1]).resolve()
    options = argparse.Namespace(build=os.environ.get("BUILD", root / "build"), bound=None, realtime_backends=False)
    for sig in signal.SIGTERM, signal.SIGHUP:
        signal.signal(sig, signal.default_int_handler)
    os.sched_setaffinity(0, {CLIENT_CPU})
    arena, got = Arena(options), {"this": [], "other": []}
    try:
        arena.open()
        for r in range(ROUNDS):
            turns = [("this", None), ("other", checkout)]
            for name, where in turns if r % 2 else turns[::-1]:
                got[name].append(one(arena, where))
    finally:
        arena.close()
    head()
    for load, (_, metrics) in LOADS.items():
        for metric, unit, more in metrics:
            ours, theirs = ([g[load][metric] if load in g else None for g in got[n]] for n in ("this", "other"))
            for name, values in ("this", ours), ("other", theirs):
                if known := [v for v in values if v is not None]:
                    row(f"{load}_{metric}", name, known, unit)
            if ratios := pairs(ours, theirs):
                row(f"{load}_{metric}", "this/other", ratios, "ratio", at_least(0.98) if more else at_most(1.02))


main()
