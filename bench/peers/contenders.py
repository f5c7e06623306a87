# SPDX-License-Identifier: Apache-2.0
"""How each contender is started: the gateway on core 0, its backend on core 1."""
import json
import os
import pathlib
import re

from arena import CLIENT_CPU, GATEWAY_ADDR, GATEWAY_CPU, Failure, run, status_kib

HERE = pathlib.Path(__file__).resolve().parent
BODY = "GET "  # reply of the RPC backend `echo` to GET of the route's own path
BACKEND_PORT = 9000


class Contender:
    """start() returns when it answers; `gateway` is its process, all of whose children count."""

    def __init__(self, arena, upstream="tcp"):
        self.arena, self.upstream = arena, upstream
        self.bound, self.realtime_backend = arena.options.bound, arena.options.realtime_backends
        self.gateway = self.backend = None
        self.templates, self.build = HERE, arena.build

    def write(self, template, name, **values):
        text = (self.templates / template).read_text()
        values |= {"DIR": self.arena.dir, "NAME": name, "IFACE": self.arena.gateway_if, "ADDR": GATEWAY_ADDR,
                   "BODY": BODY}
        for key, value in values.items():
            text = text.replace(f"@{key}@", str(value))
        left = re.search(r"@[A-Z_]+@", text)
        if left:
            raise Failure(f"{template}: nothing stands for {left[0]}")
        path = self.arena.dir / (name + ".conf")
        path.write_text(text)
        return path

    def spawn(self, name, cpu, *argv):
        return self.arena.start(name, self.arena.gateway_ns, cpu, argv)

    def spawn_backend(self, name, cpu, *argv):
        return self.spawn(name, cpu, *(("chrt", "-r", "1") if self.realtime_backend else ()), *argv)

    def http_backend(self, cpu, listen):
        conf = self.write("backend.conf.in", "backend", CPU_MASK=bin(1 << cpu)[2:], LISTEN=listen)
        p = self.spawn_backend("backend", cpu, "nginx", "-e", "stderr", "-c", conf)
        if listen.startswith("unix:"):
            self.arena.wait_until(pathlib.Path(listen[5:]).exists, p)
        else:
            self.arena.wait_until(lambda: self.arena.listens(int(listen.rpartition(":")[2])), p)
        return p

    def upstream_address(self):
        return f"unix:{self.arena.dir}/backend.sock" if self.upstream == "unix" else f"127.0.0.1:{BACKEND_PORT}"

    def family(self):
        """The gateway's processes."""
        pids, found = [self.gateway.pid], []
        while pids:
            pid = pids.pop()
            found.append(pid)
            try:
                pids += map(int, open(f"/proc/{pid}/task/{pid}/children").read().split())
            except OSError:
                pass
        return found

    def memory_kib(self, field):
        return sum(status_kib(pid, field) for pid in self.family())

    def unanswered(self):
        """Requests so far that its own counters say no backend has answered, where HTTP statuses do not tell."""
        return 0

    def cpu_seconds(self):
        """Returns the CPU time of all threads, to the nanosecond."""
        total = 0
        for pid in self.family():
            for tid in os.listdir(f"/proc/{pid}/task"):
                total += int(open(f"/proc/{pid}/task/{tid}/schedstat").read().split()[0])
        return total / 1e9

    def stop(self):
        for p in self.gateway, self.backend:
            if p:
                self.arena.end(p)
        self.gateway = self.backend = None


class Nginx(Contender):
    def start(self):
        self.backend = self.http_backend(CLIENT_CPU, self.upstream_address())
        conf = self.write("nginx.conf.in", "nginx", CPU_MASK=bin(1 << GATEWAY_CPU)[2:],
                          LISTEN=f"{GATEWAY_ADDR}:8080", UPSTREAM=self.upstream_address())
        self.gateway = self.spawn("nginx", GATEWAY_CPU, "nginx", "-e", "stderr", "-c", conf)
        self.arena.wait_until(lambda: self.arena.listens(8080), self.gateway)


class HAProxy(Contender):
    def start(self):
        self.backend = self.http_backend(CLIENT_CPU, self.upstream_address())
        upstream = self.upstream_address().replace("unix:", "unix@")
        conf = self.write("haproxy.cfg.in", "haproxy", CPU=GATEWAY_CPU, LISTEN=f"{GATEWAY_ADDR}:8080",
                          UPSTREAM=upstream)
        self.gateway = self.spawn("haproxy", GATEWAY_CPU, "haproxy", "-db", "-f", conf)
        self.arena.wait_until(lambda: self.arena.listens(8080), self.gateway)


class Direct(Contender):
    """No proxy: the HTTP backend itself, on the gateway's core."""

    def start(self):
        self.gateway = self.http_backend(GATEWAY_CPU, f"{GATEWAY_ADDR}:8080")


class NginxGrpc(Contender):
    """grpc_pass to a server on gRPC's own C core."""

    def start(self):
        self.backend = grpc_server(self, CLIENT_CPU, f"127.0.0.1:{BACKEND_PORT}")
        conf = self.write("nginx-grpc.conf.in", "nginx", CPU_MASK=bin(1 << GATEWAY_CPU)[2:],
                          LISTEN=f"{GATEWAY_ADDR}:8080", UPSTREAM=f"127.0.0.1:{BACKEND_PORT}")
        self.gateway = self.spawn("nginx", GATEWAY_CPU, "nginx", "-e", "stderr", "-c", conf)
        self.arena.wait_until(lambda: self.arena.listens(8080), self.gateway)


class DirectGrpc(Contender):
    """No proxy: that server itself, on the gateway's core."""

    def start(self):
        self.gateway = grpc_server(self, GATEWAY_CPU, f"{GATEWAY_ADDR}:8080")


def grpc_server(contender, cpu, listen):
    p = contender.spawn_backend("grpc-server", cpu, contender.arena.build / "bench/peers/grpc_server", listen)
    contender.arena.wait_until(lambda: contender.arena.listens(int(listen.rpartition(":")[2])), p)
    return p


class Sluice(Contender):
    """Returns the programs of this checkout, or of another one, in its folder `build`."""
    template, values = "sluice.conf.in", {}

    def __init__(self, arena, checkout=None):
        super().__init__(arena)
        if checkout:
            self.templates, self.build = checkout / "bench/peers", checkout / "build"

    def start(self):
        self.backend = self.spawn_backend("echo", CLIENT_CPU, self.build / "echo", "--listen",
                                          f"shm://{self.arena.dir}/echo.sock")
        self.arena.wait_until((self.arena.dir / "echo.sock").exists, self.backend)
        conf = self.write(self.template, "sluice", CPU=GATEWAY_CPU,
                          BATCH=f"batch {{ max_latency = {self.bound} }}" if self.bound else "", **self.values)
        out = self.arena.dir / "sluice.out"
        out.unlink(missing_ok=True)
        self.gateway = self.spawn("sluice", GATEWAY_CPU, self.build / "sluice", "run", "-c", conf)
        self.arena.wait_until(lambda: out.exists() and "ready\n" in out.read_text(), self.gateway)

    def unanswered(self):
        text = run("nsenter", f"--net=/run/netns/{self.arena.gateway_ns}", "curl", "-sS", "http://127.0.0.1:9900/stats")
        return sum(n for w in json.loads(text)["workers"] for why, n in w["core"]["outcomes"].items()
                   if why not in ("ok", "client_gone"))


class SluiceIdle(Sluice):
    template = "sluice-idle.conf.in"
