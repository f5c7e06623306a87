# SPDX-License-Identifier: Apache-2.0
"""Patterns of load against every policy, end to end. Started by e2e.sh.

Rows: pattern, policy, goodput, p50 and p99 of all replies in ms as the client saw them, mean batch, share of requests
shed. Goodput is replies within the bound per second, by the gateway's measurement: from the first byte of the request
to the last of the reply. For each pattern a sweep over sizes and delays finds the best fixed policy. Then that, the
trivial one, aimd and adaptive take turns for ROUNDS rounds; a ratio is the median of the ratios within a round. Loads are
shares of a capacity measured just before.
"""
import json, os, re, signal, statistics, subprocess, sys, threading, time

E = os.environ
BOUND = int(E["BOUND_US"]) / 1e6
SWEEP, EACH, ROUNDS = float(E["SWEEP_SECONDS"]), float(E["SECONDS_EACH"]), int(E["ROUNDS"])
FIXED = {f"fixed_{n}_{d}ms": f"policy = fixed size = {n} delay = {d}ms"
         for n, d in ((16, 0), (32, 0), (64, 0), (128, 0), (48, 5), (96, 10))}
TRIVIAL = "fixed_128_0ms"  # the largest size, no delay
POLICIES = {"adaptive": "policy = adaptive", "aimd": "policy = aimd", **FIXED}
SETS = {"drift": ["drift"], "unequal": ["plain", "slow"], "steps": ["steps"], "plain": ["plain"]}
# name: backends, load, and what happens meanwhile. Two computing backends, a gateway and a client are more than two
# cores can do at once: less load there.
PATTERNS = {
    "constant_20": ("plain", 0.20, None), "constant_60": ("plain", 0.60, None), "constant_90": ("plain", 0.90, None),
    "constant_110": ("plain", 1.10, None), "bursts": ("plain", 0.40, "bursts"), "drift": ("drift", 0.70, "drift"),
    "unequal": ("unequal", 0.60, None), "steps": ("steps", 0.90, None)}
BURST, BURST_FOR, BURST_EVERY = 1.60, 8 * BOUND, 40 * BOUND


def config():
    for s, backends in SETS.items():
        for p, how in POLICIES.items():
            ends = " ".join(f'backend b{i} {{ endpoint = "shm://{E["D"]}/{b}.sock" }}' for i, b in enumerate(backends))
            print(f"pool {s}_{p} {{ batch {{ max_latency = {E['BOUND_US']}us max_size = 128 {how} }} {ends} }}")
            print(f'route "/{s}_{p}" {{ pool = {s}_{p} deadline = {E["BOUND_US"]}us }}')
        print(f"pool {s}_closed {{ batch {{ max_latency = 10s policy = fixed size = 64 max_size = 128 }} {ends} }}")
        print(f'route "/{s}_closed" {{ pool = {s}_closed }}')
    # One request at a time, however long it takes: what batching is to be compared with.
    print(f"pool unbatched {{ batch {{ max_latency = 10s policy = fixed size = 1 }} {ends} }}")
    print('route "/unbatched" { pool = unbatched }')


def admin(path):
    return subprocess.run(["nsenter", "--net=/run/netns/" + E["NS_GATEWAY"], "curl", "-sS", "--max-time", "10",
                           "http://127.0.0.1:9900" + path], check=True, capture_output=True, text=True).stdout


def live(pool):
    for s in json.loads(admin("/stats"))["pools"]:
        if s["pool"] == pool:
            return s["live"][0]
    raise SystemExit("e2e: no pool " + pool)


def in_time(pool):
    at = [float(v) for le, v in re.findall(
        r'sluice_stage_seconds_bucket\{pool="%s",stage="total",le="([^"]+)"\} (\d+)' % re.escape(pool), admin("/metrics"))
        if le != "+Inf" and abs(float(le) / BOUND - 1) < 0.01]
    return at[0]


def load(pool, seconds, *args):
    cmd = ["nsenter", "--net=/run/netns/" + E["NS_CLIENT"], E["SLUICE"], "load", "-j", "-Q", "-w", "0ms",
           "-t", f"{int(seconds * 1000)}ms", "-b", E["D"] + "/body", *map(str, args), f"http://{E['V4']}:8080/{pool}"]
    out = subprocess.run(cmd, capture_output=True, text=True).stdout
    return json.loads(out or '{"requests": 0, "seconds": 1, "errors": {"status": 0}, "latency_ns": {"p50": 0, "p99": 0}}')


def open_loop(pool, seconds, rate):
    return load(pool, seconds, "-n", 256, "-P", "-r", f"{rate:.1f}")


def warm(pool, rate, what):
    open_loop(pool, 0.4, rate)
    if what == "drift":
        load(pool, 0.4, "-n", 64)  # it was slower when this policy had it last


def measure(pool, seconds, rate, burst_rate, what):
    extra = {}
    if what == "bursts":
        seconds = max(1, round(seconds / BURST_EVERY)) * BURST_EVERY
    before, began, good = live(pool), time.monotonic(), in_time(pool)
    jobs = []
    if what == "drift":
        jobs = [threading.Timer(seconds / 2, os.kill, (int(E["DRIFT_PID"]), signal.SIGUSR1))]
    elif what == "bursts":
        def burst(k):
            extra[k] = open_loop(pool, BURST_FOR, burst_rate)
        jobs = [threading.Timer((k + 0.5) * BURST_EVERY - BURST_FOR / 2, burst, (k,))
                for k in range(round(seconds / BURST_EVERY))]
    for j in jobs:
        j.start()
    r = open_loop(pool, seconds, rate)
    for j in jobs:
        j.join()
    if what == "drift":
        os.kill(int(E["DRIFT_PID"]), signal.SIGUSR1)
    good, after = in_time(pool) - good, live(pool)
    answered = sum(x["requests"] for x in [r, *extra.values()])
    bad = sum(x["errors"]["status"] for x in [r, *extra.values()])
    batches = after["batches"] - before["batches"]
    return {"goodput": good / seconds, "p50": r["latency_ns"]["p50"] / 1e6, "p99": r["latency_ns"]["p99"] / 1e6,
            "batch": (after["requests"] - before["requests"]) / max(1, batches), "shed": bad / max(1, answered + bad)}


def row(pattern, policy, runs):
    m = {k: statistics.median(x[k] for x in runs) for k in runs[0]}
    print(f"e2e_{pattern}\t{policy}\t{m['goodput']:.1f}\t{m['p50']:.3f}\t{m['p99']:.3f}\t{m['batch']:.2f}\t{m['shed']:.4f}",
          flush=True)


def capacity(backends):
    """Replies per second in batches of 64, two of which just fit in the bound on a quiet machine, with nothing shed."""
    for n in (4, 32, 96):
        load(f"{backends}_adaptive", 0.3, "-n", n)
    r = load(f"{backends}_closed", 0.8, "-n", 128 * len(SETS[backends]))
    return max(1, r["requests"] / r["seconds"])


def one_pattern(name, out):
    backends, share, what = PATTERNS[name]
    most = capacity(backends)
    args = (most * share, most * (BURST - share), what)
    print(f"# {name}: capacity {most:.0f}/s", flush=True)
    best = {}
    for p in FIXED:
        warm(f"{backends}_{p}", args[0], what)
        best[p] = measure(f"{backends}_{p}", SWEEP, *args)["goodput"]
    best = max(best, key=best.get)
    who = ["adaptive", "aimd", best] + [TRIVIAL] * (best != TRIVIAL)
    runs = {p: [] for p in who}
    for k in range(ROUNDS):
        for p in who[k % len(who):] + who[:k % len(who)]:
            warm(f"{backends}_{p}", args[0], what)
            runs[p].append(measure(f"{backends}_{p}", EACH, *args))
    for p in who:
        row(name, f"best_fixed({p[6:]})" if p == best else p, runs[p])

    def ratio(key, other):
        return statistics.median(a[key] / max(1e-9, o[key]) for a, o in zip(runs["adaptive"], runs[other]))
    out.append(("e2e_adaptive_over_best_fixed", name, ratio("goodput", best)))
    out.append(("e2e_adaptive_over_aimd", name, ratio("goodput", "aimd")))
    out.append(("e2e_adaptive_over_trivial", name, ratio("goodput", TRIVIAL)))
    out.append(("e2e_p99_over_best_fixed", name, ratio("p99", best)))
    out.append(("e2e_p99_over_trivial", name, ratio("p99", TRIVIAL)))
    p99 = statistics.median(x["p99"] for x in runs["adaptive"])
    out.append(("e2e_p99_over_bound", name, p99 / 1e3 / BOUND))
    out.append(("e2e_goodput_over_capacity", name, statistics.median(x["goodput"] for x in runs["adaptive"]) / most))
    if name == "constant_20":
        out.append(("e2e_p50_over_undelayed", name, ratio("p50", TRIVIAL)))


def run():
    out = []
    pays = [load("plain_closed", 1, "-n", 128)["requests"] / max(1, load("unbatched", 1, "-n", 64)["requests"])
            for _ in range(3)]
    out.append(("e2e_batched_over_unbatched", "closed", statistics.median(pays)))
    for name in E["PATTERNS"].split() or PATTERNS:
        one_pattern(name, out)
    for what, pattern, value in sorted(out):
        print(f"ratio {what} {pattern} {value:.4f}")


{"config": config, "run": run}[sys.argv[1]]()
