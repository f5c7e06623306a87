#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench-servers: unmodified servers behind sluice, nginx, HAProxy and h2o (if installed); see world.py.

All contenders run at once in namespaces of their own; one is asked at a time. A round asks each contender once, in
alternating order, so that a pair is seconds apart. Values are medians of rounds with minimum and maximum. The ratio of
a row divides sluice's value by that of the peer with the best median, round by round. Processor time is the schedstat
of a contender's processes. `aim` is the ratio that the row should reach; `ok` or `missed` says whether the median does.

Rows of `sdk_` have another backend for sluice: `echo` over shared memory; peers reach an nginx server by a Unix socket.
ROUNDS (5), SECONDS_EACH (1) and ROWS (part of a name) are read from the environment.
"""
import json
import os
import pathlib
import re
import signal
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from contenders import BODY, GRPC_PORT, PORT, STREAM_PORT, WAYS, contenders, servers  # noqa: E402
from rows import at_least, at_most, head, pairs, row  # noqa: E402
from world import BUILD, Failure, World, cpu_seconds  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "5"))
SECONDS = float(os.environ.get("SECONDS_EACH", "1"))
ROWS = os.environ.get("ROWS", "")
SHARES = 10, 50, 90  # per cent of nginx's maximum
MIB = 128
STREAMS_AT_ONCE = 500


def load(c, path, connections, *more):
    argv = [BUILD / "sluice", "load", "--json", "--quiet", "--connections", connections, "--time",
            f"{round(SECONDS * 1000)}ms", "--warmup", "0ms", *more, c.url(path)]
    before = cpu_seconds(c.pid)
    r = json.loads(c.world.ask(argv))
    used = cpu_seconds(c.pid) - before
    bad = {k: v for k, v in r["errors"].items() if v}
    if bad or not r["requests"]:
        raise Failure(f"{c.name} {path}: {r['requests']} requests, errors {bad}")
    return {"cpu": used * 1e6 / r["requests"], "rps": r["requests_per_s"], "p50": r["latency_ns"]["p50"] / 1e3,
            "p99": r["latency_ns"]["p99"] / 1e3}


def get_256(c):
    expect = c.world.dir / "expect"
    expect.write_text(BODY, encoding="ascii")
    return load(c, "/256", 256, *([] if "sdk" in c.does else ["--expect", expect]))


def at_rate(rate):
    return lambda c: load(c, "/256", 64, "--rate", round(rate), "--poisson")


def body(path, *options):
    """One large body by curl. Returns MiB per second of the contender's processor time."""
    def measure(c):
        before = cpu_seconds(c.pid)
        code = c.world.ask(["curl", "-sS", "--max-time", "50", "-o", "/dev/null", "-w", "%{http_code} %{size_download} "
                            "%{size_upload}", *options, c.url(path)]).split()
        if code[0] != "200" or max(map(int, code[1:])) != MIB << 20:
            raise Failure(f"{c.name} {path}: {code}")
        return {"mib": MIB / (cpu_seconds(c.pid) - before)}
    return measure


def calls(c):
    frame = c.world.dir / "frame"
    frame.write_bytes(b"\0\0\0\0\x40" + bytes(range(64)))
    before = cpu_seconds(c.pid)
    out = c.world.ask(["h2load", "-t1", "-c8", "-m8", f"-D{max(1, round(SECONDS))}", "-H",
                       "content-type: application/grpc", "-H", "te: trailers", "-d", frame,
                       f"http://{c.address}:{GRPC_PORT}/sluice.demo.Echo/Echo"])
    rate = re.search(r"^finished in [^,]*, ([0-9.]+) req/s", out, re.M)
    n = re.search(r"^requests: .* (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", out, re.M)
    if not rate or not n or int(n[2]) == 0 or int(n[2]) != int(n[1]):
        raise Failure(f"{c.name} gRPC: {out[-300:]}")
    return {"calls": float(rate[1]), "cpu": (cpu_seconds(c.pid) - before) * 1e6 / int(n[2])}


def check_calls(c):
    """h2load looks at HTTP statuses only; a stock client looks at the message and the status of gRPC."""
    c.world.ask(["/usr/bin/python3", HERE.parent / "peers/grpc_check.py", f"{c.address}:{GRPC_PORT}"])


def events(streams, every_us):
    def measure(c):
        before = cpu_seconds(c.pid)
        out = c.world.ask([BUILD / "bench/stream/sse", "events", c.address, STREAM_PORT, streams, every_us,
                           max(2, round(SECONDS) + 1)]).split()
        return {"gap": float(out[3]) / 1e3, "cpu": (cpu_seconds(c.pid) - before) * 1e6 / int(out[7])}
    return measure


# measurement -> (kind of contender, function, rows: (name, key of the measurement, unit, aim)); aims over the best peer
def table(maximum):
    by_rate = [(f"rate_{s}", ("http", at_rate(maximum * s / 100), [
        (f"proxied_cpu_at_{s}", "cpu", "us", {10: 1.0, 50: 0.8, 90: 0.6}[s]),
        *([("proxied_p50_10", "p50", "us", 0.8)] if s == 10 else []),
        *([("proxied_p99_50", "p99", "us", 0.8)] if s == 50 else [])])) for s in SHARES]
    return dict([
        ("get_256", ("http", get_256, [("proxied_cpu_256", "cpu", "us", 0.5), ("proxied_rps_256", "rps", "1/s", 1.8)])),
        *by_rate,
        ("reply_64k", ("http", lambda c: load(c, "/64k", 16), [("reply_64k_cpu", "cpu", "us", 1.0)])),
        ("download", ("http", body(f"/{MIB}m"), [("download_mib_per_core_s", "mib", "MiB/s", 0.6)])),
        ("upload", ("http", body("/sink", "--data-binary", "@body", "-H", "Expect:"),
                    [("upload_mib_per_core_s", "mib", "MiB/s", 0.8)])),
        ("grpc", ("grpc", calls, [("grpc_calls", "calls", "1/s", 1.5), ("grpc_cpu", "cpu", "us", None)])),
        ("sse_1", ("http", events(1, 1000), [("sse_event_gap", "gap", "us", 0.8)])),
        ("sse_500", ("http", events(STREAMS_AT_ONCE, STREAMS_AT_ONCE * 50), [("sse_cpu", "cpu", "us", 0.8)])),
        ("connections", ("http", lambda c: load(c, "/256", 64, "--per-connection", 1),
                         [("connections_per_s", "rps", "1/s", 2.5)])),
        ("post_220k", ("http", lambda c: load(c, "/sink", 16, "--size", 220 << 10),
                       [("post_220k_rps", "rps", "1/s", 0.8)])),
        ("sdk_256", ("sdk", get_256, [("sdk_cpu_256", "cpu", "us", None), ("sdk_rps_256", "rps", "1/s", None)])),
    ])


def say(text):
    print(text, file=sys.stderr, flush=True)


def take(what, of, measure):
    """Returns contender -> one measurement per round, None for a failure. A contender that fails twice is left out."""
    got, failed = {c.name: [] for c in of}, {c.name: 0 for c in of}
    for r in range(ROUNDS + 1):  # the first is for caches and connections
        for c in of if r % 2 else of[::-1]:
            try:
                v = measure(c) if failed[c.name] < 2 else None
            except Failure as e:
                say(f"  {what} {c.name}: FAILED {e}")
                failed[c.name] += 1
                v = None
            if r:
                got[c.name].append(v)
    got = {n: all_of for n, all_of in got.items() if failed[n] < 2 and any(all_of)}
    for name, values in got.items():
        values = [v for v in values if v]
        say(f"  {what} {name}: " + " ".join(f"{k} {statistics.median(v[k] for v in values):.4g}" for k in values[0]))
    return got


def print_rows(got, name, key, unit, aim):
    higher = unit.endswith("/s")
    values = {n: [v and v[key] for v in all_of] for n, all_of in got.items()}
    known = {n: [v for v in all_of if v] for n, all_of in values.items()}
    for n, all_of in known.items():
        row(name, n, all_of, unit)
    peers = [n for n in values if not n.startswith("sluice")]
    for ours in (n for n in values if n.startswith("sluice") and peers):
        best = (max if higher else min)(peers, key=lambda n: statistics.median(known[n]))
        ratios = pairs(values[ours], values[best])
        if ratios:
            row(name, f"{ours}/{best}", ratios, "ratio", aim and (at_least if higher else at_most)(aim))


def bench(world):
    servers(world)
    all_of = contenders(world)
    (world.dir / "body").write_bytes(b"x" * (MIB << 20))
    os.chdir(world.dir)
    for c in all_of:
        if "grpc" in c.does:
            check_calls(c)
    head()
    nginx = next(c for c in all_of if c.name == "nginx")
    maximum = statistics.median(get_256(nginx)["rps"] for _ in range(3))
    say(f"ways of sluice: {', '.join(WAYS)}; nginx at most {maximum:.0f} requests/s; port {PORT}")
    for what, (kind, measure, rows) in table(maximum).items():
        if not any(ROWS in name for name, *_ in rows):
            continue
        got = take(what, [c for c in all_of if kind in c.does], measure)
        for wanted in rows:
            print_rows(got, *wanted)


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    for sig in signal.SIGTERM, signal.SIGHUP:
        signal.signal(sig, interrupted)
    os.sched_setaffinity(0, {1})
    world = None
    try:
        world = World()
        bench(world)
    except Failure as e:
        sys.exit(f"servers: {e}")
    finally:
        if world:
            world.close()


main()
