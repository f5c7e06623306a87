#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""insns_ask.py COUNTS URL EXPECT CONNECTIONS REQUESTS: at the tap's other end, asks the gateway in the guest.

Prints a JSON object: requests, and instructions of the guest's CPU 0 for them, user and kernel apart. It is the
difference of two runs, so that connections which begin and end do not count. COUNTS: see tests/vm/host/count_insns.c.
"""
import json
import os
import struct
import subprocess
import sys
import time


def counts(path):
    with open(path, "rb") as f:
        return struct.unpack("2Q", f.read(16))


def load(path, url, expect, connections, requests):
    """Returns replies and instructions in user space and kernel."""
    before = counts(path)
    r = subprocess.run([f"{os.environ['BUILD']}/sluice", "load", "--json", "--quiet", "--connections", connections,
                        "--requests", str(requests), "--time", "300s", "--warmup", "0ms", "--expect", expect, url],
                       capture_output=True, text=True, timeout=330, check=False)
    time.sleep(1)  # until connections have ended
    after = counts(path)
    if r.returncode:
        sys.exit(f"sluice load: {(r.stderr or r.stdout).strip()[-400:]}")
    out = json.loads(r.stdout)
    bad = {k: v for k, v in out["errors"].items() if v}
    if bad or out["requests"] < requests:
        sys.exit(f"{url}: {out['requests']} of {requests} replies, errors {bad}")
    return out["requests"], *(b - a for a, b in zip(before, after, strict=True)), out["requests_per_s"]


def main(path, url, expect, connections, requests):
    n = int(requests)
    load(path, url, expect, connections, n // 4)  # for caches and connections to the server
    few = load(path, url, expect, connections, n // 4)
    many = load(path, url, expect, connections, n + n // 4)
    got = [b - a for a, b in zip(few, many, strict=True)]
    if min(got[:3]) <= 0:
        sys.exit(f"too few requests to tell from the guest's other work: {few}, {many}")
    print(json.dumps({"requests": got[0], "user": got[1] / got[0], "kernel": got[2] / got[0], "rps": many[3]}))


main(*sys.argv[1:])
