# SPDX-License-Identifier: Apache-2.0
"""One measurement each: a dict of metric -> value, and "note" where something was wrong."""
import json
import pathlib
import re
import subprocess
import time

from arena import CLIENT_CPU, CLIENT_NET, GATEWAY_ADDR, GATEWAY_CPU, Failure, busy_seconds, run
from contenders import BODY

HERE = pathlib.Path(__file__).resolve().parent
URL = f"http://{GATEWAY_ADDR}:8080/"
WARMUP_S = 0.5
HELD_BY_ONE = 16000
UNITS = {
    "requests_per_s": "1/s", "p50": "us", "p99": "us", "p99.9": "us", "offered": "1/s", "packets_per_s": "1/s",
    "gateway_user": "s/million", "gateway_system": "s/million", "gateway_softirq": "s/million",
    "gateway_cpu": "s/million", "other_core_cpu": "s/million",
    "process_cpu": "s/million", "peak_memory": "KiB", "errors": "requests", "lost": "packets",
    "round_trips_per_s": "1/s", "idle_cpu": "%", "idle_connection": "bytes",
    "idle_connections": "connections",
}


class Window:
    """CPU time of both cores, and the number of packets, between open() and close()."""

    def __init__(self, contender):
        self.contender = contender

    def sample(self):
        return (time.monotonic(), busy_seconds(GATEWAY_CPU), busy_seconds(CLIENT_CPU),
                self.contender.arena.packets(self.contender.gateway.pid), self.contender.cpu_seconds())

    def open(self):
        self.first = self.sample()

    def close(self):
        self.last = self.sample()

    def per_million(self, requests_per_s):
        (t0, g0, c0, p0, s0), (t1, g1, c1, p1, s1) = self.first, self.last
        scale = 1e6 / (requests_per_s * (t1 - t0)) if requests_per_s > 0 else 0
        out = {f"gateway_{k}": (g1[k] - g0[k]) * scale for k in g0}
        out["gateway_cpu"] = sum(out.values())
        out["other_core_cpu"] = sum(c1[k] - c0[k] for k in c0) * scale
        out["process_cpu"] = (s1 - s0) * scale  # exact, without other processes of that core
        out["packets_per_s"] = (p1 - p0) / (t1 - t0)
        return out


def run_client(contender, argv, seconds, warmup):
    """The client's output, and the window that lies in the middle of what it measured."""
    arena, window = contender.arena, Window(contender)
    p = arena.start("client", arena.client_ns, CLIENT_CPU, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True)
    try:
        time.sleep(warmup + 0.15 * seconds)
        window.open()
        time.sleep(0.7 * seconds)
        window.close()
        out, err = p.communicate(timeout=3 * seconds + 30)
    except subprocess.TimeoutExpired:
        raise Failure(f"{argv[0]} does not end")
    finally:
        arena.end(p)
    return out, err.strip() or f"ended with status {p.returncode}", window


def finish(contender, out, window):
    out |= window.per_million(out["requests_per_s"])
    out["peak_memory"] = contender.memory_kib("VmHWM")
    return out


def load(contender, connections, seconds, rate=0):
    """`sluice load` through AF_XDP; a rate makes it open loop, with Poisson arrivals."""
    arena = contender.arena
    expect = arena.dir / "expect"
    expect.write_text(BODY + "\n")
    argv = [arena.build / "sluice", "load", "--json", "--quiet", "--xdp", arena.client_if, "--connections", connections,
            "--time", f"{round(seconds * 1000)}ms", "--warmup", f"{round(WARMUP_S * 1000)}ms", "--expect", expect]
    if rate:
        argv += ["--rate", f"{rate:.0f}", "--poisson"]
    text, err, window = run_client(contender, [*argv, URL], seconds, WARMUP_S)
    try:
        r = json.loads(text)
    except ValueError:
        raise Failure(f"sluice load: {err or text}")
    errors = {k: v for k, v in r["errors"].items() if v}
    out = {"requests_per_s": r["requests_per_s"], "errors": sum(errors.values())}
    out |= {k: r["latency_ns"][k] / 1e3 for k in ("p50", "p99", "p99.9")}
    if errors:
        out["note"] = "ERRORS " + " ".join(f"{k} {v}" for k, v in errors.items())
    if rate:
        out["offered"] = rate
        if r["requests_per_s"] < 0.95 * rate:
            out["note"] = (out.get("note", "") + f" kept {100 * r['requests_per_s'] / rate:.0f} % of the rate").strip()
    return finish(contender, out, window)


def wrk(contender, connections, seconds):
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s", HERE / "wrk.lua", URL]
    text, err, window = run_client(contender, argv, seconds, 0)
    m = re.search(r"^wrk (.*)$", text, re.M)
    if not m:
        raise Failure(f"wrk: {err or text}")
    f = [float(x) for x in m[1].split()]
    kinds = dict(zip(("connect", "read", "write", "status", "timeout"), map(int, f[5:])))
    out = {"requests_per_s": f[0] / f[1], "p50": f[2], "p99": f[3], "p99.9": f[4], "errors": sum(kinds.values())}
    if out["errors"]:
        out["note"] = "ERRORS " + " ".join(f"{k} {v}" for k, v in kinds.items() if v)
    return finish(contender, out, window)


GRPC_MESSAGE = bytes(range(64))
GRPC_CONNECTIONS = 8  # channels as their clients have them: few connections, several calls on each


def grpc_answers(contender):
    """h2load looks at HTTP statuses only, which say 200 whatever grpc-status says."""
    ns = contender.arena.argv(contender.arena.client_ns, CLIENT_CPU,
                              ["/usr/bin/python3", HERE / "grpc_check.py", f"{GATEWAY_ADDR}:8080"])
    run(*ns, timeout=30)
    return contender.unanswered()


def grpc(contender, calls, seconds):
    """Unary calls, so many at a time, by h2load: the same client for all, through the kernel."""
    frame, log = contender.arena.dir / "grpc-frame", contender.arena.dir / "h2load.log"
    frame.write_bytes(b"\0" + len(GRPC_MESSAGE).to_bytes(4, "big") + GRPC_MESSAGE)
    log.unlink(missing_ok=True)
    argv = ["h2load", "-t1", f"-c{GRPC_CONNECTIONS}", f"-m{calls // GRPC_CONNECTIONS}", f"-D{max(1, round(seconds))}",
            f"--warm-up-time={WARMUP_S * 1000:.0f}ms", f"--log-file={log}", "-H", "content-type: application/grpc",
            "-H", "te: trailers", "-d", frame, URL + "sluice.demo.Echo/Echo"]
    before = grpc_answers(contender)
    text, err, window = run_client(contender, argv, seconds, WARMUP_S)
    refused = grpc_answers(contender) - before
    rate = re.search(r"^finished in [^,]*, ([0-9.]+) req/s", text, re.M)
    counts = re.search(r"^requests: .* (\d+) failed, (\d+) errored, (\d+) timeout$", text, re.M)
    times = sorted(int(line.rpartition("\t")[2]) for line in log.read_text().splitlines()) if log.exists() else []
    if not rate or not counts or not times:
        raise Failure(f"h2load: {err or text}")
    kinds = dict(zip(("failed", "errored", "timeout"), map(int, counts.groups()))) | {"refused": refused}
    out = {"requests_per_s": float(rate[1]), "errors": sum(kinds.values())}
    out |= {name: times[min(len(times) - 1, int(len(times) * q))]
            for name, q in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))}
    if out["errors"]:
        out["note"] = "ERRORS " + " ".join(f"{k} {v}" for k, v in kinds.items() if v)
    return finish(contender, out, window)


def ceiling(arena, window, seconds):
    """AF_XDP echo on the gateway's core, AF_XDP client on the other."""
    program = arena.build / "bench/ceiling/ceiling"
    echo = arena.start("ceiling-echo", arena.gateway_ns, GATEWAY_CPU,
                       [program, "echo", arena.gateway_if, "--seconds", 10 * seconds + 60])
    try:
        arena.wait_until(lambda: "ready" in (arena.dir / "ceiling-echo.out").read_text(), echo)
        ns = arena.argv(arena.client_ns, CLIENT_CPU, [program, "blast", arena.client_if, GATEWAY_ADDR, "--window",
                                                      window, "--seconds", seconds])
        rows = dict(line.split("\t")[:2] for line in run(*ns, timeout=3 * seconds + 30).splitlines())
    finally:
        arena.end(echo)
        (arena.dir / "ceiling-echo.out").unlink(missing_ok=True)
    get = lambda name: float(rows["ceiling_" + name])
    out = {"packets_per_s": get("packets"), "round_trips_per_s": get("round_trips"), "p50": get("p50"),
           "p99": get("p99"), "lost": get("lost")}
    if out["lost"]:
        out["note"] = f"ERRORS lost {out['lost']:.0f}"
    return out


def idle(contender, seconds):
    """Returns the share of one core that a gateway uses without requests."""
    time.sleep(0.5)
    t0, c0 = time.monotonic(), contender.cpu_seconds()
    time.sleep(seconds)
    return {"idle_cpu": 100 * (contender.cpu_seconds() - c0) / (time.monotonic() - t0)}


def hold(arena, name, count, source):
    p = arena.start(name, arena.client_ns, CLIENT_CPU,
                    ["python3", HERE / "hold.py", GATEWAY_ADDR, 8080, count, source])
    arena.wait_until(lambda: f"held {count}\n" in (arena.dir / f"{name}.out").read_text(), p, 60 + count / 200)
    return p


def idle_connections(contender, count):
    """Resident growth of the gateway per connection that has been used once and is open."""
    arena = contender.arena
    # A first few touch what every run does: frames, pools, buffers of the link to the backend.
    arena.end(hold(arena, "hold-first", 256, CLIENT_NET + "2"))
    before = contender.memory_kib("VmRSS")
    holders = []
    for n, start in enumerate(range(0, count, HELD_BY_ONE)):  # a process may have so many descriptors
        source = f"{CLIENT_NET}{n + 3}"
        run("ip", "-n", arena.client_ns, "addr", "add", source + "/24", "dev", arena.client_if)
        holders.append(hold(arena, f"hold{n}", min(HELD_BY_ONE, count - start), source))
    grown = contender.memory_kib("VmRSS") - before
    stats = json.loads(run("nsenter", f"--net=/run/netns/{arena.gateway_ns}", "curl", "-sS",
                           "http://127.0.0.1:9900/stats"))
    count = sum(w["tcp"]["conns"] for w in stats["workers"])  # connections that it reports
    for p in holders:
        arena.end(p)
    return {"idle_connections": count, "idle_connection": grown * 1024 / max(count, 1)}
