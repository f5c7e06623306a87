#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py: HTTP/1.1 on loopback through sluice (kernel sockets only) and through nginx.

A gateway has core 0; wrk (64 connections) and the backend share core 1. Backends: `sdk` is `echo` over shared memory,
`server` an nginx that answers by itself, behind sluice's agent. nginx as proxy has the same server for both. Each round
runs a pair, in alternating order. Rows are medians; processor time is that of the gateway's processes, with agents.
"""
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

BUILD = os.environ["BUILD"]
ROUNDS = int(os.environ.get("ROUNDS", "7"))
SECONDS = int(os.environ.get("SECONDS_EACH", "2"))
TICK = os.sysconf("SC_CLK_TCK")
NGINX = """
user root; daemon off; pid {dir}/{name}.pid; error_log {dir}/{name}.log warn; worker_processes 1;
events {{ worker_connections 1024; multi_accept on; }}
http {{
	access_log off; tcp_nodelay on; keepalive_requests 1000000000; default_type text/plain;
	client_body_temp_path {dir}/{name}.a; proxy_temp_path {dir}/{name}.b; fastcgi_temp_path {dir}/{name}.c;
	uwsgi_temp_path {dir}/{name}.d; scgi_temp_path {dir}/{name}.e;
	{more}
}}
"""
PROXY = """upstream u { server 127.0.0.1:8000; keepalive 512; keepalive_requests 1000000000; }
	server { listen 127.0.0.1:8003 backlog=4096;
		location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; } }"""
SERVER = 'server { listen 127.0.0.1:8000 backlog=4096; location / { return 200 "GET /\\n"; } }'
SLUICE = """user = root
workers {{ count = 1 }}
admin {{ port = 0 socket = none }}
limits {{ address_requests = 0 address_connections = 1.0 }}
listener web {{ address = "127.0.0.1" port = {port} }}
pool app {{ backend a {{ endpoint = "{endpoint}" }} }}
route "/" {{ pool = app }}
"""


def start(cpu, command, log):
    with open(log, "w", encoding="utf-8") as out:
        return subprocess.Popen(["taskset", "-c", str(cpu), *command], stdout=out, stderr=out)


def nginx(directory, name, more, cpu):
    path = directory / f"{name}.conf"
    path.write_text(NGINX.format(dir=directory, name=name, more=more), encoding="utf-8")
    return start(cpu, ["nginx", "-c", str(path)], directory / f"{name}.out")


def sluice(directory, name, port, endpoint):
    path = directory / f"{name}.conf"
    path.write_text(SLUICE.format(port=port, endpoint=endpoint), encoding="utf-8")
    return start(0, [f"{BUILD}/sluice", "run", "-c", str(path)], directory / f"{name}.out")


def tree(pid):
    children = subprocess.run(["pgrep", "-P", str(pid)], stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    return [pid, *(p for c in children for p in tree(int(c)))]


def processor_s(pid):
    total = 0
    for p in tree(pid):
        fields = pathlib.Path(f"/proc/{p}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def measure(process, port):
    """Returns requests/s, and processor time per request in microseconds."""
    before = processor_s(process.pid)
    out = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", "-c64", f"-d{SECONDS}s", f"http://127.0.0.1:{port}/"],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    done = int(re.search(r"(\d+) requests in", out)[1])
    assert "Non-2xx" not in out and "Socket errors" not in out, out
    return float(re.search(r"Requests/sec: *([\d.]+)", out)[1]), 1e6 * (processor_s(process.pid) - before) / done


def wait_for(port):
    for _ in range(200):
        if subprocess.run(["curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{port}/"], check=False).returncode == 0:
            return
        time.sleep(0.05)
    raise SystemExit(f"nothing serves port {port}")


def compare(case, ours, port, theirs):
    got = {"sluice": [], "nginx": []}
    pair = [("sluice", ours, port), ("nginx", theirs, 8003)]
    for i in range(ROUNDS):
        for name, process, at in pair if i % 2 == 0 else pair[::-1]:
            got[name].append(measure(process, at))
    rate, cost = ({n: statistics.median(r[k] for r in got[n]) for n in got} for k in (0, 1))
    for name in got:
        print(f"{case}_{name}_requests\t{rate[name]:.0f}\t1/s")
        print(f"{case}_{name}_processor\t{cost[name]:.2f}\tus")
    print(f"ratio {case}_requests {rate['sluice'] / rate['nginx']:.2f}")
    print(f"ratio {case}_processor {cost['sluice'] / cost['nginx']:.2f}", flush=True)


def main():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sl-local-"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    running = []
    try:
        running += [nginx(directory, "server", SERVER, 1), nginx(directory, "proxy", PROXY, 0)]
        running.append(start(1, [f"{BUILD}/echo", "--listen", f"shm://{directory}/echo.sock"], directory / "echo.out"))
        running.append(sluice(directory, "sdk", 8001, f"shm://{directory}/echo.sock"))
        running.append(sluice(directory, "agent", 8002, "http://127.0.0.1:8000"))
        for port in 8000, 8001, 8002, 8003:
            wait_for(port)
        compare("sdk", running[3], 8001, running[1])
        compare("server", running[4], 8002, running[1])
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait()
        shutil.rmtree(directory)


main()
