#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""insns_guest.py COUNTS: in the guest, starts one gateway after the other and has each asked from the tap's other end.

    client, server (host)  ==tap, virtio-net==  CPU 0: gateway, and the interrupts of its NIC
                                                CPU 1: SDK backend, all else

All contenders give the same reply. Prints rows of bench/rows.py: medians of rounds in alternating order. A ratio divides
sluice's instructions, user and kernel together, by nginx's of the same round. ROUNDS, REQUESTS and CONNECTIONS are read
from the environment. The folder COUNTS.d is also visible on the host.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from contenders import BUFFERED, NGINX, PORT, PROXY, SERVER, SLUICE, TO_SDK, WAYS  # noqa: E402
from rows import at_most, head, pairs, row  # noqa: E402

BUILD, REPO = os.environ["BUILD"], os.environ["VM_REPO"]
ROUNDS, REQUESTS, CONNECTIONS = int(os.environ["ROUNDS"]), os.environ["REQUESTS"], os.environ["CONNECTIONS"]
GATEWAY_CPU, OTHER_CPU = 0, 1
ADDRESS, SERVER_ADDRESS = "10.200.0.2", "10.200.0.1:8000"
BODY = "GET 256\n"  # what the SDK backend `echo` answers
DIR = pathlib.Path("/tmp/insns")
AIMS = {"sluice-sdk": 0.25, "sluice-stack": 0.4, "sluice-agent": 0.4}
TO_SERVER = """pool http {{ backend a {{ endpoint = "http://{http}" {way} }} }}
route "/" {{ pool = http }}"""
# An idle worker sleeps at once: what it polls would count as work.
CPUS, SLEEPING = "cpus = {{{cpu}}} }}\nagents", "cpus = {{{cpu}}} busy_poll = 0 }}\nagents"


class Failure(Exception):
    """An error message for people."""


def run(*argv):
    r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False)
    if r.returncode:
        raise Failure(f"{' '.join(map(str, argv))}: {(r.stderr + r.stdout).strip()[-600:]}")
    return r.stdout


def peer(*argv):
    return run(f"{REPO}/tests/vm/guest/peer", *argv)


def start(name, cpu, ready, *argv):
    """Starts a program and waits until ready(its output)."""
    log = DIR / f"{name}.out"
    with open(log, "wb") as out:
        p = subprocess.Popen(["taskset", "-c", str(cpu), *map(str, argv)], stdin=subprocess.DEVNULL, stdout=out,
                             stderr=out)
    end = time.monotonic() + 180
    while not ready(log.read_text(errors="replace")):
        if p.poll() is not None or time.monotonic() > end:
            raise Failure(f"{name} does not start: {log.read_text(errors='replace')[-600:]}")
        time.sleep(0.2)
    return p


def write(path, template, **values):
    path.write_text(template.format(**values), encoding="ascii")
    return path


def nginx_conf(folder, name, more, module="", **values):
    return write(folder / f"{name}.conf", NGINX.replace("{more}", more), dir=folder, name=name, module=module, **values)


def start_nginx():
    conf = nginx_conf(DIR, "nginx", PROXY, http=SERVER_ADDRESS, grpc="10.200.0.1:8001", streams="10.200.0.1:8002",
                      address=ADDRESS, buffering=BUFFERED)
    return start("nginx", GATEWAY_CPU, lambda _: f":{PORT} " in run("ss", "-Hltn"), "nginx", "-e", "stderr", "-c", conf)


def start_sluice(name):
    way, lines = WAYS.get(name, ("", ""))
    lines = lines.replace('interface "{http_if}" {{ }}\n', "")  # one NIC for both sides
    if CPUS not in SLUICE:
        raise Failure("contenders.py has other lines of workers")
    template = SLUICE.replace("{pools}", TO_SERVER if name in WAYS else TO_SDK).replace("{lines}", lines)
    conf = write(DIR / f"{name}.conf", template.replace(CPUS, SLEEPING), interface="eth0", cpu=GATEWAY_CPU,
                 address=ADDRESS, way=way, http=SERVER_ADDRESS, dir=DIR)
    p = start(name, GATEWAY_CPU, lambda out: "ready\n" in out, f"{BUILD}/sluice", "run", "-c", conf)
    if "queue 0: zero-copy" not in (DIR / f"{name}.out").read_text(errors="replace"):
        raise Failure(f"{name}: no zero-copy")
    return p


def measure(name, counts, expect):
    """Starts the gateway, has it asked, and ends it."""
    p = start_nginx() if name == "nginx" else start_sluice(name)
    try:
        got = json.loads(peer("env", f"BUILD={BUILD}", "python3", HERE / "insns_ask.py", counts,
                              f"http://{ADDRESS}:{PORT}/256", expect, CONNECTIONS, REQUESTS))
    finally:
        p.terminate()
        p.wait()
    print(f"  {name}: {got}", file=sys.stderr, flush=True)
    return got


def pin():
    """The NIC interrupts the gateway's CPU; other devices and the kernel's work queues have the other one."""
    os.sched_setaffinity(0, {OTHER_CPU})
    pathlib.Path("/sys/devices/virtual/workqueue/cpumask").write_text(f"{1 << OTHER_CPU:x}")
    nic = {f.name for f in pathlib.Path("/sys/class/net/eth0/device/../msi_irqs").iterdir()}
    for irq in pathlib.Path("/proc/irq").glob("[0-9]*"):
        try:
            (irq / "smp_affinity_list").write_text(str(GATEWAY_CPU if irq.name in nic else OTHER_CPU))
        except OSError:  # not for the timer
            if irq.name in nic:
                raise


def start_backends(folder):
    """The server at the tap's other end, and the SDK backend."""
    conf = nginx_conf(folder, "server", SERVER, "include /etc/nginx/modules-enabled/*.conf;",
                      listen=f"listen {SERVER_ADDRESS} backlog=4096;", body=BODY.replace("\n", "\\n"))
    server = subprocess.Popen([f"{REPO}/tests/vm/guest/peer", "nginx", "-e", "stderr", "-c", str(conf)])
    peer("bash", "-c", "for i in {1..300}; do ss -Hltn | grep -q :8000 && exit; sleep 0.1; done; exit 1")
    return server, start("echo", OTHER_CPU, lambda _: (DIR / "echo.sock").exists(), f"{BUILD}/echo", "--listen",
                         f"shm://{DIR}/echo.sock")


def print_rows(got):
    head()
    for key, unit in ("requests", "requests"), ("user", "1/request"), ("kernel", "1/request"):
        for name, rounds in got.items():
            row(f"instructions_{key}", name, [r[key] for r in rounds], unit)
    total = {name: [r["user"] + r["kernel"] for r in rounds] for name, rounds in got.items()}
    for name, aim in AIMS.items():
        row("instructions_over_nginx", f"{name}/nginx", pairs(total[name], total["nginx"]), "ratio", at_most(aim))


def main(counts):
    pin()
    run("sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65000", "net.ipv4.ip_local_reserved_ports=20000-29999",
        "net.ipv4.tcp_tw_reuse=1")
    folder = pathlib.Path(f"{counts}.d")
    for made in DIR, folder:
        made.mkdir()
    expect = write(folder / "expect", BODY)
    backends = start_backends(folder)
    got = {name: [] for name in (*AIMS, "nginx")}
    for r in range(ROUNDS):
        for name in got if r % 2 else reversed(got):
            got[name].append(measure(name, counts, expect))
    for p in backends:
        p.terminate()
    print_rows(got)


try:
    main(sys.argv[1])
except Failure as e:
    sys.exit(f"insns: {e}")
