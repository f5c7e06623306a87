# SPDX-License-Identifier: Apache-2.0
"""Contenders of bench-servers, each at its best, and the servers behind them."""
import shutil

from world import BUILD, GATEWAY_CPU, OTHER_CPU

PORT, GRPC_PORT, STREAM_PORT = 8080, 8081, 8082  # of each gateway
HTTP, GRPC, STREAMS = 8000, 50051, 8001  # of the servers
# The ways of sluice to a server: name -> (keys of the backend, lines of the file). {http_if}, {grpc_if}: interfaces.
WAYS = {
    "sluice-agent": ("", ""),
    "sluice-stack": ("via = stack", 'interface "{http_if}" {{ }}\ntcp {{ server_ports = "20000-29999" }}'),
}
BODY = "x" * 250 + "\n"

NGINX = """
user root; daemon off; pid {dir}/{name}.pid; error_log {dir}/{name}.log warn; worker_processes 1;
{module}
events {{ worker_connections 8192; multi_accept on; }}
http {{
	access_log off; server_tokens off; tcp_nodelay on; sendfile on; default_type text/plain;
	keepalive_timeout 300s; keepalive_requests 1000000000; client_max_body_size 0; client_body_buffer_size 512k;
	client_body_temp_path {dir}/{name}.a; proxy_temp_path {dir}/{name}.b; fastcgi_temp_path {dir}/{name}.c;
	uwsgi_temp_path {dir}/{name}.d; scgi_temp_path {dir}/{name}.e;
{more}
}}
"""
# An unmodified nginx; the module `echo` reads a request's body before it answers.
SERVER = """	server {{ {listen} root {dir}/files;
		location = /256 {{ return 200 "{body}"; }}
		location = /sink {{ echo_read_request_body; echo ok; }} }}"""
PROXY = """	upstream http {{ server {http}; keepalive 512; keepalive_requests 1000000000; keepalive_timeout 300s; }}
	upstream grpc {{ server {grpc}; keepalive 512; keepalive_requests 1000000000; keepalive_timeout 300s; }}
	server {{ listen {address}:8080 backlog=4096; location / {{ proxy_pass http://http; proxy_http_version 1.1;
		proxy_set_header Connection ""; {buffering} }} }}
	server {{ listen {address}:8082 backlog=4096; location / {{ proxy_pass http://{streams}; proxy_http_version 1.1;
		proxy_set_header Connection ""; proxy_buffering off; proxy_request_buffering off; }} }}
	server {{ listen {address}:8081 http2 backlog=4096; location / {{ grpc_pass grpc://grpc; }} }}"""
BUFFERED = "proxy_buffer_size 16k; proxy_buffers 32 16k; proxy_busy_buffers_size 64k;"
UNBUFFERED = ("proxy_buffering off; proxy_request_buffering off; proxy_buffer_size 64k; proxy_buffers 4 64k; "
              "proxy_busy_buffers_size 64k;")
HAPROXY = """
global
	nbthread 1
	maxconn 8192
defaults
	mode http
	option http-keep-alive
	option tcp-smart-accept
	option tcp-smart-connect
	http-reuse always
	timeout connect 5s
	timeout client 300s
	timeout server 300s
frontend web
	bind {address}:8080 backlog 4096
	default_backend http
frontend events
	bind {address}:8082 backlog 4096
	default_backend streams
frontend calls
	bind {address}:8081 proto h2 backlog 4096
	default_backend grpc
backend http
	server a {http} pool-max-conn 512 pool-purge-delay 300s
backend streams
	option http-no-delay
	server a {streams}
backend grpc
	server a {grpc} proto h2 pool-max-conn 512 pool-purge-delay 300s
"""
H2O = """
user: root
num-threads: 1
max-connections: 8192
http1-request-timeout: 300
proxy.timeout.keepalive: 300000
proxy.preserve-host: ON
hosts:
  "web:8080":
    listen: {{ host: {address}, port: 8080 }}
    paths: {{ /: {{ proxy.reverse.url: "http://{http}/" }} }}
  "events:8082":
    listen: {{ host: {address}, port: 8082 }}
    paths: {{ /: {{ proxy.reverse.url: "http://{streams}/" }} }}
"""
SLUICE = """
user = root
interface "{interface}" {{ }}
workers {{ cpus = {{{cpu}}} }}
agents {{ cpus = {{{cpu}}} }}
listener web {{ address = "{address}" port = 8080 }}
listener calls {{ address = "{address}" port = 8081 }}
listener events {{ address = "{address}" port = 8082 }}
admin {{ port = 0 socket = none }}
{lines}
limits {{ address_requests = 0 address_connections = 1 address_exchanges = 1 address_reading = 1 address_frames = 1 }}
{pools}
"""
TO_SERVERS = """pool http {{ backend a {{ endpoint = "http://{http}" {way} }} }}
pool streams {{ backend a {{ endpoint = "http://{streams}" concurrency = 2048 {way} }} max_queue = 2048 }}
pool grpc {{ backend a {{ endpoint = "h2c://{grpc}" }} }}
route "/" {{ pool = http }}
route "/" {{ listener = {{"events"}} pool = streams }}
route "/sluice.demo.Echo/" {{ pool = grpc }}"""
TO_SDK = """pool http {{ backend a {{ endpoint = "shm://{dir}/echo.sock" }} }}
route "/" {{ pool = http }}"""


class Contender:
    """A running gateway: `process` with its children, `address` of its listeners, `does` the kinds of row."""

    def __init__(self, name, world, process, address, does):
        self.name, self.world, self.pid, self.address, self.does = name, world, process.pid, address, does

    def url(self, path):
        return f"http://{self.address}:{PORT}{path}"


def write(world, name, template, **values):
    path = world.dir / f"{name}.conf"
    path.write_text(template.format(dir=world.dir, name=name, **values), encoding="utf-8")
    return path


def nginx(world, name, ns, cpu, more, module="", **values):
    text = NGINX.replace("{more}", more.replace("{dir}", str(world.dir)))
    conf = write(world, name, text, module=module, **values)
    return world.start(name, ns, cpu, "nginx", "-e", "stderr", "-c", conf)


def servers(world):
    """Starts the servers; all contenders share them."""
    files = world.dir / "files"
    files.mkdir()
    for name, size in ("64k", 64 << 10), ("1m", 1 << 20), ("128m", 128 << 20):
        (files / name).write_bytes(b"x" * size)
    listen = f"listen 0.0.0.0:{HTTP} backlog=4096; listen unix:{world.dir}/http.sock backlog=4096;"
    p = nginx(world, "server", world.http, OTHER_CPU, SERVER, "include /etc/nginx/modules-enabled/*.conf;",
              listen=listen, body=BODY.replace("\n", "\\n"))
    world.await_port(p, world.http, HTTP)
    p = world.start("streams", world.http, OTHER_CPU, BUILD / "bench/stream/sse", "serve", "0.0.0.0", STREAMS)
    world.await_port(p, world.http, STREAMS)
    p = world.start("calls", world.grpc, OTHER_CPU, BUILD / "bench/servers/grpc_server", f"0.0.0.0:{GRPC}")
    world.await_port(p, world.grpc, GRPC)


def places(world, letter):
    """A gateway's namespace and what its configuration needs."""
    ns = world.space(letter)
    interface, address, _ = world.link(ns, world.client)
    http_if, _, http = world.link(ns, world.http)
    grpc_if, _, grpc = world.link(ns, world.grpc)
    return ns, {"interface": interface, "address": address, "http": f"{http}:{HTTP}", "http_if": http_if,
                "streams": f"{http}:{STREAMS}", "grpc": f"{grpc}:{GRPC}", "grpc_if": grpc_if}


def start_sluice(world, letter, name, pools, way=("", "")):
    ns, at = places(world, letter)
    template = SLUICE.replace("{pools}", pools).replace("{lines}", way[1])
    conf = write(world, name, template, cpu=GATEWAY_CPU, way=way[0], **at)
    p = world.start(name, ns, GATEWAY_CPU, BUILD / "sluice", "run", "-c", conf)
    world.await_output(p, "ready\n")
    return p, at["address"]


def start_peer(world, letter, name, kind, changes=None, **values):
    ns, at = places(world, letter)
    at |= changes or {}
    if kind == "nginx":
        p = nginx(world, name, ns, GATEWAY_CPU, PROXY, **at, **values)
    elif kind == "haproxy":
        p = world.start(name, ns, GATEWAY_CPU, "haproxy", "-db", "-f", write(world, name, HAPROXY, **at))
    else:
        p = world.start(name, ns, GATEWAY_CPU, "h2o", "-c", write(world, name, H2O, **at))
    world.await_port(p, ns, PORT)
    return p, at["address"]


def contenders(world):
    """Starts all; each has its own namespace and links, so that an idle one changes nothing for the others."""
    both = {"http", "grpc"}
    started = [(name, start_sluice(world, chr(ord("A") + i), name, TO_SERVERS, way), both)
               for i, (name, way) in enumerate(WAYS.items())]
    started += [
        ("nginx", start_peer(world, "n", "nginx", "nginx", buffering=BUFFERED), both),
        ("nginx-unbuffered", start_peer(world, "u", "nginx-unbuffered", "nginx", buffering=UNBUFFERED), {"http"}),
        ("haproxy", start_peer(world, "p", "haproxy", "haproxy"), both),
    ]
    if shutil.which("h2o"):  # not in every release of Debian
        started.append(("h2o", start_peer(world, "o", "h2o", "h2o"), {"http"}))
    p = world.start("echo", world.http, OTHER_CPU, BUILD / "echo", "--listen", f"shm://{world.dir}/echo.sock")
    world.await_true(p, (world.dir / "echo.sock").exists)
    unix = f"{world.dir}/http.sock"
    started += [
        ("sluice-sdk", start_sluice(world, "s", "sluice-sdk", TO_SDK), {"sdk"}),
        ("nginx-unix", start_peer(world, "x", "nginx-unix", "nginx", {"http": f"unix:{unix}"}, buffering=BUFFERED),
         {"sdk"}),
        ("haproxy-unix", start_peer(world, "y", "haproxy-unix", "haproxy", {"http": f"unix@{unix}"}), {"sdk"}),
    ]
    return [Contender(name, world, p, address, does) for name, (p, address), does in started]
