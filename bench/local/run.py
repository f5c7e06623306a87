#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py: HTTP/1.1 and gRPC on loopback through sluice (kernel sockets only) and through nginx.

A gateway has core 0; the client and the backend share core 1. The client is wrk (64 connections), or h2load (64 calls on
8 connections). Backends: `sdk` is `echo` over shared memory; `server` is an nginx that answers by itself, or a gRPC C++
server, behind sluice's agent. nginx as proxy has these servers for both. Each round runs a pair, in alternating order.
Rows are medians with minimum and maximum; ratios are of pairs. Processor time is the schedstat of the gateway's
processes, with agents. ROUNDS (7) and SECONDS_EACH (2) are read from the environment.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "servers"), str(HERE.parent)]
from rows import at_least, at_most, head, pairs, row  # noqa: E402
from world import BUILD, cpu_seconds  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "7"))
SECONDS = int(os.environ.get("SECONDS_EACH", "2"))
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
	upstream g { server 127.0.0.1:50051; keepalive 512; keepalive_requests 1000000000; }
	server { listen 127.0.0.1:8003 backlog=4096;
		location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; } }
	server { listen 127.0.0.1:8004 http2 backlog=4096; location / { grpc_pass grpc://g; } }"""
SERVER = 'server { listen 127.0.0.1:8000 backlog=4096; location / { return 200 "GET /\\n"; } }'
SLUICE = """user = root
workers {{ count = 1 }}
admin {{ port = 0 socket = none }}
limits {{ address_requests = 0 address_connections = 1.0 }}
listener web {{ address = "127.0.0.1" port = {port} }}
pool app {{ backend a {{ endpoint = "{endpoint}" }} }}
pool calls {{ backend a {{ endpoint = "{calls}" }} }}
route "/" {{ pool = app }}
route "/sluice.demo.Echo/" {{ pool = calls }}
"""


def start(cpu, command, log):
    with open(log, "w", encoding="utf-8") as out:
        return subprocess.Popen(["taskset", "-c", str(cpu), *command], stdout=out, stderr=out)


def nginx(directory, name, more, cpu):
    path = directory / f"{name}.conf"
    path.write_text(NGINX.format(dir=directory, name=name, more=more), encoding="utf-8")
    return start(cpu, ["nginx", "-e", "stderr", "-c", str(path)], directory / f"{name}.out")


def sluice(directory, name, port, endpoint, calls):
    path = directory / f"{name}.conf"
    path.write_text(SLUICE.format(port=port, endpoint=endpoint, calls=calls), encoding="utf-8")
    return start(0, [f"{BUILD}/sluice", "run", "-c", str(path)], directory / f"{name}.out")


def client(*argv):
    return subprocess.run(["taskset", "-c", "1", *map(str, argv)], stdout=subprocess.PIPE, text=True, check=True).stdout


def requests(port):
    """Returns requests/s of HTTP/1.1, and their number."""
    out = client("wrk", "-t1", "-c64", f"-d{SECONDS}s", f"http://127.0.0.1:{port}/")
    assert "Non-2xx" not in out and "Socket errors" not in out, out
    return float(re.search(r"Requests/sec: *([\d.]+)", out)[1]), int(re.search(r"(\d+) requests in", out)[1])


def calls(port, frame):
    """Returns unary calls/s, and their number."""
    out = client("h2load", "-t1", "-c8", "-m8", f"-D{SECONDS}", "-H", "content-type: application/grpc", "-H",
                 "te: trailers", "-d", frame, f"http://127.0.0.1:{port}/sluice.demo.Echo/Echo")
    done, succeeded = map(int, re.search(r"^requests: .* (\d+) done, (\d+) succeeded", out, re.M).groups())
    assert succeeded and done == succeeded, out
    return float(re.search(r"^finished in [^,]*, ([0-9.]+) req/s", out, re.M)[1]), succeeded


def measure(process, ask, *where):
    """Returns requests/s, and processor time per request in microseconds."""
    before = cpu_seconds(process.pid)
    rate, done = ask(*where)
    return rate, 1e6 * (cpu_seconds(process.pid) - before) / done


def wait_for(*argv):
    for _ in range(200):
        if subprocess.run(argv, check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.05)
    raise SystemExit(f"no answer: {' '.join(map(str, argv))}")


def compare(case, ask, ours, theirs):
    """Prints the rows of a case. `ours`, `theirs`: a process and what `ask` takes."""
    got = {"sluice": [], "nginx": []}
    pair = [("sluice", *ours), ("nginx", *theirs)]
    for i in range(ROUNDS):
        for name, process, *where in pair if i % 2 == 0 else pair[::-1]:
            got[name].append(measure(process, ask, *where))
    for k, (what, unit, aim) in enumerate((("requests", "1/s", at_least(1.5)), ("processor", "us", at_most(0.7)))):
        values = {n: [v[k] for v in all_of] for n, all_of in got.items()}
        for name in got:
            row(f"{case}_{what}", name, values[name], unit)
        row(f"{case}_{what}", "sluice/nginx", pairs(values["sluice"], values["nginx"]), "ratio", aim)


def main():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sl-local-"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    frame = directory / "frame"
    frame.write_bytes(b"\0\0\0\0\x40" + bytes(range(64)))
    running = []
    try:
        running += [nginx(directory, "server", SERVER, 1), nginx(directory, "proxy", PROXY, 0)]
        endpoint = f"shm://{directory}/echo.sock"
        running.append(start(1, [f"{BUILD}/echo", "--listen", endpoint], directory / "echo.out"))
        running.append(start(1, [f"{BUILD}/bench/servers/grpc_server", "127.0.0.1:50051"], directory / "grpc.out"))
        sdk = sluice(directory, "sdk", 8001, endpoint, endpoint)
        agent = sluice(directory, "agent", 8002, "http://127.0.0.1:8000", "h2c://127.0.0.1:50051")
        proxy = running[1]
        running += [sdk, agent]
        for port in 8000, 8001, 8002, 8003:
            wait_for("curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{port}/")
        for port in 8001, 8002, 8004:  # h2load does not look at grpc-status
            wait_for("/usr/bin/python3", HERE.parent / "peers/grpc_check.py", f"127.0.0.1:{port}")
        head()
        compare("sdk", requests, (sdk, 8001), (proxy, 8003))
        compare("server", requests, (agent, 8002), (proxy, 8003))
        compare("sdk_grpc", calls, (sdk, 8001, frame), (proxy, 8004, frame))
        compare("server_grpc", calls, (agent, 8002, frame), (proxy, 8004, frame))
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait()
        shutil.rmtree(directory)


main()
