# SPDX-License-Identifier: Apache-2.0
"""sluice, nginx and HAProxy before the members of bench-traffic; a port for each case. See bench/servers/world.py."""
from contenders import NGINX, SLUICE, places, write
from world import BUILD, GATEWAY_CPU, OTHER_CPU

PLACES = 16  # prompts that a member keeps
# Cases: name -> (port of the gateway, first port of the members, members)
CASES = {
    "slow": (8080, 9000, ("5", "5", "50")),
    "failing": (8081, 9010, ("2", "2", "fail")),
    "affinity": (8082, 9020, (f"cache:{PLACES}:1:6",) * 8),
}
EVEN_PORT = 8083  # the members of "slow" without the slow one


class Gateway:
    """Runs from its creation on; restart() makes it forget what it has learnt of the members."""

    def __init__(self, name, world, address, start):
        self.name, self.world, self.address, self.start = name, world, address, start
        self.process = start()

    def restart(self):
        self.world.end(self.process)
        self.process = self.start()


def addresses(case, host):
    _, first, kinds = CASES[case]
    return [f"{host}:{first + i}" for i in range(len(kinds))]


def sluice(world):
    ns, at = places(world, "S")
    host = at["http"].partition(":")[0]
    backends = lambda case, n=99: " ".join(f'backend m{i} {{ endpoint = "http://{a}" }}'
                                           for i, a in enumerate(addresses(case, host)[:n]))
    conf = SLUICE.replace('listener calls {{ address = "{address}" port = 8081 }}', "").replace(
        'listener events {{ address = "{address}" port = 8082 }}', "").replace(
        'listener web {{ address = "{address}" port = 8080 }}', "".join(
            f'listener p{p} {{{{ address = "{{address}}" port = {p} }}}}\n' for p in range(8080, 8086)))
    pools = f"""
pool slow {{ {backends("slow")} }}
pool even {{ {backends("slow", 2)} }}
pool failing {{ {backends("failing")} }}
pool affinity {{ {backends("affinity")} }}
pool sink {{ backend a {{ endpoint = "shm://{world.dir}/sink.sock" }} }}
route "/" {{ listener = {{"p8080"}} pool = slow }}
route "/" {{ listener = {{"p8083"}} pool = even }}
route "/" {{ listener = {{"p8081"}} pool = failing }}
route "/" {{ listener = {{"p8082"}} pool = affinity affinity {{ by = prefix }} }}
route "/" {{ listener = {{"p8084"}} pool = sink stream = yes }}
route "/" {{ listener = {{"p8085"}} match_body = model match "llama*" {{ pool = sink }} stream = yes }}
"""
    pools = pools.replace("{", "{{").replace("}", "}}")
    path = write(world, "sluice", conf.replace("{lines}", "").replace("{pools}", pools),
                 cpu=GATEWAY_CPU, **at)

    def start():
        p = world.start("sluice", ns, GATEWAY_CPU, BUILD / "sluice", "run", "-c", path)
        world.await_output(p, "ready\n")
        return p
    return Gateway("sluice", world, at["address"], start)


def nginx(world):
    """least_conn, and as many failures in a row as HAProxy; nginx cannot hash a body."""
    ns, at = places(world, "N")
    host = at["http"].partition(":")[0]
    upstream = lambda name, case, more, n=99: f"upstream {name} {{ least_conn; keepalive 512; " + " ".join(
        f"server {a} {more};" for a in addresses(case, host)[:n]) + " }\n"
    server = lambda name, port: (f"server {{ listen {at['address']}:{port} backlog=4096; location / {{ proxy_pass "
                                 f"http://{name}; proxy_http_version 1.1; proxy_set_header Connection \"\"; "
                                 "proxy_next_upstream error timeout http_500; } }\n")
    more = (upstream("slow", "slow", "") + upstream("even", "slow", "", 2) +
            upstream("failing", "failing", "max_fails=10 fail_timeout=10s") +
            server("slow", 8080) + server("even", EVEN_PORT) + server("failing", 8081))
    conf = write(world, "nginx", NGINX.replace("{more}", more.replace("{", "{{").replace("}", "}}")), module="")

    def start():
        p = world.start("nginx", ns, GATEWAY_CPU, "nginx", "-e", "stderr", "-c", conf)
        world.await_port(p, ns, 8081)
        return p
    return Gateway("nginx", world, at["address"], start)


HAPROXY = """
global
	nbthread 1
	maxconn 8192
	tune.bufsize 300000
defaults
	mode http
	http-reuse always
	timeout connect 5s
	timeout client 300s
	timeout server 300s
listen slow
	bind {address}:8080 backlog 4096
	balance leastconn
{slow}
listen even
	bind {address}:8083 backlog 4096
	balance leastconn
{even}
listen failing
	bind {address}:8081 backlog 4096
	balance leastconn
	option httpchk GET /
{failing}
listen affinity
	bind {address}:8082 backlog 4096
	option http-buffer-request
	balance hash req.body,bytes(0,4096),xxh64
	hash-type consistent
	hash-balance-factor 125
{affinity}
"""


def haproxy(world):
    ns, at = places(world, "H")
    host = at["http"].partition(":")[0]
    servers = lambda case, more="", n=99: "\n".join(f"\tserver m{i} {a} {more}"
                                                    for i, a in enumerate(addresses(case, host)[:n]))
    conf = write(world, "haproxy", HAPROXY, address=at["address"], slow=servers("slow"), even=servers("slow", "", 2),
                 failing=servers("failing", "check inter 2s observe layer7 error-limit 10 on-error mark-down"),
                 affinity=servers("affinity"))

    def start():
        p = world.start("haproxy", ns, GATEWAY_CPU, "haproxy", "-db", "-f", conf)
        world.await_port(p, ns, 8080)
        return p
    return Gateway("haproxy", world, at["address"], start)


def members(world, here):
    for name, (_, first, kinds) in CASES.items():
        p = world.start(f"members-{name}", world.http, OTHER_CPU, "/usr/bin/python3", here / "members.py", "0.0.0.0",
                        first, *kinds)
        world.await_output(p, "serves")
    p = world.start("sink", world.http, OTHER_CPU, BUILD / "bench/stream/sink", f"shm://{world.dir}/sink.sock")
    world.await_true(p, (world.dir / "sink.sock").exists)
