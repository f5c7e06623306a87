#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench-traffic: choice, failures, affinity and routing by model, beside HAProxy and nginx; rows by rows.py.

slow_member_p99_RATE   one of three members 10 times slower; peers choose the one with the fewest connections
slow_member_over_even  the same over a pool without the slow member
failing_member_errors  replies other than 200 of ERRORS_OF requests to a fresh gateway; one of three members answers 500
                       at once. HAProxy has `observe layer7`, nginx `max_fails` and a retry elsewhere
affinity_hit_share     shared system prompts, 8 members with a cache each; over an oracle with skew 1.25 (prompts.py)
pick_ns_1024, limits_  without a network: choice among 1,024 backends; quotas of 10,000 clients
model_routing_220k     requests per core second of the gateway, of bodies whose last member is the model, over those of a
                       route that does not look

ROUNDS (5) and SECONDS_EACH (1) are read from the environment.
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "servers"), str(HERE.parent)]
import gateways  # noqa: E402
from rows import at_least, at_most, head, pairs, row  # noqa: E402
from world import BUILD, Failure, World, cpu_seconds, inside  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "5"))
SECONDS = float(os.environ.get("SECONDS_EACH", "1"))
RATES, ERRORS_OF, PROMPTS_OF = (400, 1000), 4000, 3000


def load(g, port, *more, may_fail=False):
    argv = [BUILD / "sluice", "load", "--json", "--quiet", "--warmup", "0ms", *more, f"http://{g.address}:{port}/"]
    before = cpu_seconds(g.process.pid)
    r = subprocess.run(inside(g.world.client, 1, argv), capture_output=True, text=True, timeout=60, check=False)
    try:
        out = json.loads(r.stdout)
    except ValueError:
        raise Failure(f"sluice load: {r.stderr or r.stdout}") from None
    out["failed"] = sum(out["errors"].values())
    if not out["requests"] or (out["failed"] and not may_fail):
        raise Failure(f"{g.name}, port {port}: {out['requests']} requests, errors {out['errors']}")
    out["cpu"] = (cpu_seconds(g.process.pid) - before) * 1e6 / out["requests"]
    return out


def p99(g, port, rate):
    r = load(g, port, "--connections", 32, "--time", f"{round(2000 * SECONDS)}ms", "--rate", rate, "--poisson")
    return r["latency_ns"]["p99"] / 1e6


def errors(g):
    g.restart()
    r = load(g, 8081, "--connections", 16, "--rate", 2000, "--time", f"{ERRORS_OF // 2}ms", may_fail=True)
    return r["failed"]


def hits(g, seed):
    g.restart()
    text = g.world.ask(["/usr/bin/python3", HERE / "prompts.py", g.address, 8082, PROMPTS_OF, 32, gateways.PLACES,
                        seed])
    return [float(x) for x in text.split()]


def turns(of, measure):
    """Returns contender -> one value per round; contenders alternate within seconds."""
    got = {g.name: [] for g in of}
    for r in range(ROUNDS):
        for g in of if r % 2 else of[::-1]:
            got[g.name].append(measure(g, r))
    return got


def slow_member(all_of):
    for rate in RATES:
        got = turns(all_of, lambda g, _, rate=rate: (p99(g, 8080, rate), p99(g, gateways.EVEN_PORT, rate)))
        slow, even = ({n: [v[i] for v in vs] for n, vs in got.items()} for i in (0, 1))
        for n in got:
            row(f"slow_member_p99_{rate}", n, slow[n], "ms")
            row(f"slow_member_over_even_{rate}", n, pairs(slow[n], even[n]), "ratio",
                at_most(1.3) if n == "sluice" else None)
        row(f"slow_member_p99_{rate}", "sluice/haproxy", pairs(slow["sluice"], slow["haproxy"]), "ratio", at_most(0.5))


def failing_member(all_of):
    got = turns(all_of, lambda g, _: errors(g))
    most = statistics.median(got["haproxy"])
    for n, values in got.items():
        row("failing_member_errors", n, values, f"of {ERRORS_OF}", at_most(most) if n == "sluice" else None)


def affinity(all_of):
    got = turns([g for g in all_of if g.name != "nginx"], hits)
    for n, values in got.items():
        row("affinity_hit_share", n, [v[0] for v in values], "share")
        row("affinity_hit_share", f"{n}/oracle", [a / b for a, b in values], "ratio",
            at_least(0.95) if n == "sluice" else None)


def model_routing(sluice):
    """The member comes last, so that the whole body is read; another row has it first, as most clients do."""
    for name, last in ("model_routing_220k", True), ("model_first_220k", False):
        members = [("messages", [{"role": "user", "content": "Some text of a prompt. " * 9600}]), ("model", "llama-3")]
        body = sluice.world.dir / name
        body.write_text(json.dumps(dict(members if last else members[::-1])), encoding="utf-8")
        options = ["--connections", 8, "--body", body, "--time", f"{round(1000 * SECONDS)}ms"]
        for port in (8084, 8085):
            load(sluice, port, *options)
        got = {8084: [], 8085: []}
        for r in range(ROUNDS * 2):
            for port in (8084, 8085) if r % 2 else (8085, 8084):
                got[port].append(load(sluice, port, *options))
        # Client and sink fill the other core, so that requests/s would not tell.
        ours, plain = ([1e6 / r["cpu"] for r in got[port]] for port in (8085, 8084))
        row(name, "sluice", ours, "1/core s")
        row(name, "sluice/no look", pairs(ours, plain), "ratio", at_least(0.9))


def micro():
    """Rows of bench/micro. pick_ns_1024 is the whole way of a request through the batcher of 1,024 backends."""
    got = {}
    for program, rounds in ("batch", ROUNDS), ("limits", 1):
        for _ in range(rounds):
            for line in subprocess.run([BUILD / "bench/micro" / program], capture_output=True, text=True, timeout=300,
                                       check=True).stdout.splitlines():
                name, value, _ = line.split("\t")
                got.setdefault(name, []).append(float(value))
    got["pick_ns_1024"] = got.pop("batch_request_1024")
    for name, values in got.items():
        row(name, "sluice", values, "ns", at_most(100) if name in ("pick_ns_1024", "limits_cost_ns") else None)


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    for sig in signal.SIGTERM, signal.SIGHUP:
        signal.signal(sig, interrupted)
    os.sched_setaffinity(0, {1})
    wanted = os.environ.get("ROWS", "")
    world = None
    head()
    try:
        world = World()
        gateways.members(world, HERE)
        all_of = [g(world) for g in (gateways.sluice, gateways.haproxy, gateways.nginx)]
        for part, take in (("slow_member", lambda: slow_member(all_of)), ("failing", lambda: failing_member(all_of)),
                           ("affinity", lambda: affinity(all_of)), ("model", lambda: model_routing(all_of[0])),
                           ("micro", micro)):
            if wanted in part:
                take()
    except Failure as e:
        sys.exit(f"traffic: {e}")
    finally:
        if world:
            world.close()


main()
