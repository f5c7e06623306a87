# SPDX-License-Identifier: Apache-2.0
"""The arena of the netns tests, processes in it, and what the kernel counts of both sides.

The gateway's namespace has the gateway on core 0 and the backends on core 1; the client's has the client, on core 1.
All names carry this process's id; everything started is ended by its id, however the run ends.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

GATEWAY_CPU, CLIENT_CPU = 0, 1
GATEWAY_ADDR, CLIENT_NET = "10.99.0.1", "10.99.0."
ARENA = pathlib.Path(__file__).resolve().parents[2] / "user/tools/demo/netns.sh"
HZ = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """An error message for people."""


def run(*argv, timeout=20):
    r = subprocess.run(argv, capture_output=True, text=True, timeout=timeout)
    if r.returncode != 0:
        raise Failure(f"{' '.join(map(str, argv))}: {(r.stderr or r.stdout).strip()[:300]}")
    return r.stdout


def busy_seconds(cpu):
    """Returns times of one core since boot: user, system, softirq (with hard interrupts)."""
    for line in open("/proc/stat"):
        f = line.split()
        if f[0] == f"cpu{cpu}":
            t = [int(x) / HZ for x in f[1:9]]
            return {"user": t[0] + t[1], "system": t[2], "softirq": t[5] + t[6]}
    raise Failure(f"/proc/stat: no cpu{cpu}; this bench wants two cores")


def status_kib(pid, field):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


class Arena:
    def __init__(self, options):
        self.options = options
        self.build = pathlib.Path(options.build)
        self.gateway_ns, self.client_ns = f"slpg{os.getpid()}", f"slpc{os.getpid()}"
        self.gateway_if, self.client_if = f"slpg{os.getpid()}", f"slpc{os.getpid()}"
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=f"sl-peers-{os.getpid()}-"))
        self.dir.chmod(0o755)
        self.processes = []

    def clear_leftovers(self):
        """Removes what killed runs left: names tell their processes, which have ended."""
        gone = lambda pid: not os.path.exists(f"/proc/{pid}")
        for ns in os.listdir("/run/netns") if os.path.isdir("/run/netns") else ():
            m = re.fullmatch(r"slp[gc](\d+)", ns)
            if m and gone(m[1]) and not self.pids(ns):
                subprocess.run(["ip", "netns", "del", ns], capture_output=True)
        for d in pathlib.Path(tempfile.gettempdir()).glob("sl-peers-*-*"):
            if gone(d.name.split("-")[2]):
                shutil.rmtree(d, ignore_errors=True)

    def open(self):
        self.clear_leftovers()
        run(ARENA, "make", self.gateway_ns, self.client_ns)

    def link(self):
        """A new veth pair: nothing of the contender before is left in it."""
        run(ARENA, "wire", self.gateway_ns, self.client_ns)

    def argv(self, ns, cpu, argv):
        """nsenter, taskset and setpriv each become the next: the id is the program's."""
        return ["nsenter", f"--net=/run/netns/{ns}", "taskset", "-c", str(cpu), "setpriv", "--pdeathsig", "TERM",
                *map(str, argv)]

    def start(self, name, ns, cpu, argv, **kw):
        log = open(self.dir / f"{name}.out", "ab")
        kw.setdefault("stdout", log)
        kw.setdefault("stderr", log)
        try:
            p = subprocess.Popen(self.argv(ns, cpu, argv), stdin=subprocess.DEVNULL, process_group=0, **kw)
        finally:
            log.close()
        p.name = name
        self.processes.append(p)
        return p

    def end(self, p, patience=10):
        if p.poll() is None:
            p.send_signal(signal.SIGTERM)
            try:
                p.wait(patience)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        if p in self.processes:
            self.processes.remove(p)

    def tail(self, name):
        for suffix in ".out", ".log":
            f = self.dir / (name + suffix)
            if f.exists() and f.stat().st_size:
                return f.read_text(errors="replace").strip()[-300:]
        return "said nothing"

    def wait_until(self, what, p, seconds=20):
        end = time.monotonic() + seconds
        while not what():
            if p.poll() is not None or time.monotonic() > end:
                raise Failure(f"{p.name} does not start: {self.tail(p.name)}")
            time.sleep(0.02)

    def listens(self, port):
        """A TCP socket of the gateway's namespace listens on that port."""
        return f":{port} " in run("nsenter", f"--net=/run/netns/{self.gateway_ns}", "ss", "-Hltn")

    def packets(self, pid):
        """In and out of the gateway's interface, from the view of a process in its namespace."""
        for line in open(f"/proc/{pid}/net/dev"):
            name, _, rest = line.partition(":")
            if name.strip() == self.gateway_if:
                f = rest.split()
                return int(f[1]) + int(f[9])
        return 0

    def pids(self, ns):
        r = subprocess.run(["ip", "netns", "pids", ns], capture_output=True, text=True)
        return [int(x) for x in r.stdout.split()] if r.returncode == 0 else []

    def close(self):
        for p in list(self.processes):
            self.end(p, 5)
        run(ARENA, "end", self.gateway_ns, self.client_ns)  # also workers whose master was killed
        shutil.rmtree(self.dir, ignore_errors=True)
