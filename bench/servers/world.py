# SPDX-License-Identifier: Apache-2.0
"""Namespaces and processes of bench-servers.

    client ==veth== gateway (one per contender) ==veth== HTTP server
                                                ==veth== gRPC server

Core 0 has the gateway that is measured. Core 1 has the client and the servers, which receive there (RPS).
Every name has this process's id; close() ends all processes by their ids.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

GATEWAY_CPU, OTHER_CPU = 0, 1
BUILD = pathlib.Path(os.environ["BUILD"])


class Failure(Exception):
    """An error message for people."""


def run(*argv):
    r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=60, check=False)
    if r.returncode:
        raise Failure(f"{' '.join(map(str, argv))}: {(r.stderr or r.stdout).strip()[-400:]}")
    return r.stdout


def inside(ns, cpu, argv):
    """nsenter, taskset and setpriv each become the next program, so that the id is the last one's."""
    return ["nsenter", f"--net=/run/netns/{ns}", "taskset", "-c", str(cpu), "setpriv", "--pdeathsig", "TERM",
            *map(str, argv)]


class World:
    """Owns namespaces, processes and one folder."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sl-servers-", dir="/dev/shm"))
        self.dir.chmod(0o777)
        self.spaces, self.processes, self.links = [], [], 0
        try:
            self.client, self.http, self.grpc = (self.space(x) for x in "chr")
        except BaseException:
            self.close()
            raise

    def space(self, letter):
        name = f"sv{os.getpid()}{letter}"
        run("ip", "netns", "add", name)
        self.spaces.append(name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("nsenter", f"--net=/run/netns/{name}", "sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65000",
            "net.ipv4.ip_local_reserved_ports=20000-29999", "net.ipv4.tcp_tw_reuse=1")
        return name

    def link(self, gateway, other):
        """Joins both by a veth; `other` receives on OTHER_CPU. Returns its interface and both addresses."""
        self.links += 1
        near, far, net = f"g{self.links}", f"o{self.links}", f"10.{100 + self.links}.0"
        run("ip", "link", "add", near, "netns", gateway, "type", "veth", "peer", "name", far, "netns", other)
        for ns, name, host in (gateway, near, 1), (other, far, 2):
            run("ip", "-n", ns, "addr", "add", f"{net}.{host}/24", "dev", name)
            run("ip", "-n", ns, "link", "set", name, "up")
        run("ip", "netns", "exec", other, "sh", "-c",
            f"for q in /sys/class/net/{far}/queues/rx-*; do echo {1 << OTHER_CPU:x} >$q/rps_cpus; done")
        return near, f"{net}.1", f"{net}.2"

    def start(self, name, ns, cpu, *argv):
        with open(self.dir / f"{name}.out", "wb") as log:
            p = subprocess.Popen(inside(ns, cpu, argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 process_group=0)
        p.name = name
        self.processes.append(p)
        return p

    def await_output(self, p, text):
        self.await_true(p, lambda: text in (self.dir / f"{p.name}.out").read_text(errors="replace"))

    def await_port(self, p, ns, port):
        self.await_true(p, lambda: f":{port} " in run("nsenter", f"--net=/run/netns/{ns}", "ss", "-Hltn"))

    def await_true(self, p, what):
        end = time.monotonic() + 30
        while not what():
            if p.poll() is not None or time.monotonic() > end:
                text = (self.dir / f"{p.name}.out").read_text(errors="replace").strip()[-400:]
                raise Failure(f"{p.name} does not start: {text}")
            time.sleep(0.05)

    def ask(self, argv, seconds=60):
        """Runs a client. Returns what it printed."""
        try:
            r = subprocess.run(inside(self.client, OTHER_CPU, argv), capture_output=True, text=True, timeout=seconds,
                               check=False)
        except subprocess.TimeoutExpired:
            raise Failure(f"{argv[0]} does not end") from None
        if r.returncode:
            raise Failure(f"{argv[0]}: {(r.stderr or r.stdout).strip()[-400:]}")
        return r.stdout

    def end(self, p):
        if p.poll() is None:
            p.send_signal(signal.SIGTERM)
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.processes.remove(p)

    def close(self):
        for p in self.processes:
            if p.poll() is None:
                p.send_signal(signal.SIGTERM)
        for p in list(self.processes):
            self.end(p)
        for ns in self.spaces:
            for pid in run("ip", "netns", "pids", ns).split():  # children of a master that was killed
                os.kill(int(pid), signal.SIGKILL)
            run("ip", "netns", "del", ns)
        shutil.rmtree(self.dir, ignore_errors=True)


def family(pid):
    found = [pid]
    for tid in os.listdir(f"/proc/{pid}/task"):
        children = pathlib.Path(f"/proc/{pid}/task/{tid}/children").read_text(encoding="ascii").split()
        found += [p for c in children for p in family(int(c))]
    return found


def cpu_seconds(pid):
    """Returns the processor time of all threads of a process and its children, to the nanosecond."""
    total = 0
    for p in family(pid):
        for tid in os.listdir(f"/proc/{p}/task"):
            text = pathlib.Path(f"/proc/{p}/task/{tid}/schedstat").read_text(encoding="ascii")
            total += int(re.match(r"\d+", text)[0])
    return total / 1e9
