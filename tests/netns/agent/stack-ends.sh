#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# via = stack: IPv6, resets in each state, upgrades, an unresolved neighbour. Clients and servers that do not read. Ports
# that are used up, that another program has, or that a reload changes.
. "$(dirname "$0")/../lib.sh"

arena
cl ip addr add 10.99.0.77/24 dev "$CIF"
: >"$D/server.log"
nsenter --net="/run/netns/$C" /usr/bin/python3 "$here/agent/stack_server.py" 10.99.0.2 fd99::2 10.99.0.77 >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
config() {
	cat <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
limits { address_frames = 1 max_body = 64m }
tcp { server_ports = "$1" }
pool four { backend a { endpoint = "http://10.99.0.2:8001" via = stack concurrency = 1000 } }
pool six { backend a { endpoint = "http://[fd99::2]:8001" via = stack } }
pool away { backend a { endpoint = "http://10.99.0.77:8001" via = stack } }
route "/" { pool = four forward_headers = {"*"} }
route "/upgrade" { pool = four stream = yes upgrade = {"echo"} }
route "/six" { pool = six strip_prefix = yes }
route "/away" { pool = away strip_prefix = yes }
CONF
}
config 20000-20063 | gateway_config

nsenter --net="/run/netns/$G" /usr/bin/python3 -c 'import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 20063)); s.listen(); print("bound", flush=True); time.sleep(60)' >"$D/bound.log" &
pid_of[bound]=$!
within 30 grep -q bound "$D/bound.log"
refused() {
	gw timeout 30 "$SLUICE" run -c "$D/gw.conf" 2>&1 | grep -q 'gw.conf:0: found a socket of another program at port 20063 of tcp.server_ports; allowed: ports without sockets'
}
check "a port of another program's socket is refused" refused
kill -KILL "${pid_of[bound]}"
wait "${pid_of[bound]}" 2>/dev/null
unset "pid_of[bound]"
gateway_start
take_baseline

cat >"$D/ends.py" <<'PY'
from raw import *
import json, socket, struct, threading, time
def state(name):
    return json.loads(get("/six/state").body).get(name, 0)
def leave(c):
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()
PY
ends() { local text=$1; { cat "$D/ends.py"; cat; } >"$D/all.py"; check "$text" cl timeout 200 python3 "$D/all.py"; }

ends "a server of IPv6" <<'PY'
expect("ready", eventually(20, lambda: get("/six/x").status == 200), True)
expect("body", get("/six/x").body, b"ok")
PY

ends "a reset before the reply repeats what is idempotent, and within it breaks it off" <<'PY'
expect("GET", get("/reset").status, 502)
expect("tries", state("/reset"), 3)
expect("POST", post("/reset", b"x").status, 502)
expect("tries", state("/reset"), 4)
c = Client()
c.send(b"GET /reset-body HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
got = c.rest()
expect("broken off", b" 502 " in got or (b"\r\ncontent-length: 100\r\n" in got.lower() and len(got.split(b"\r\n\r\n")[1]) <= 10), True)
expect("next", get("/x").body, b"ok")
PY

ends "a client that does not read holds the server back, and its end resets the server" <<'PY'
c = Client()
c.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
c.send(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
c.s.recv(100)
def stands():
    before = state("flood sent")
    time.sleep(0.3)
    return before == state("flood sent") > 0
expect("held back", eventually(20, stands), True)
expect("before its end", state("flood sent") < 64 << 20, True)
leave(c)
expect("reset", eventually(10, lambda: state("reset by peer") == 1), True)
PY

ends "a server that does not read holds the client back, and its client's end resets it" <<'PY'
c = Client()
c.send(b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n")
c.s.settimeout(1)
sent = 0
try:
    while sent < 60000000:
        sent += c.s.send(b"y" * 65536)
except TimeoutError:
    pass
expect("held back", sent < 60000000, True)
leave(c)
expect("reset", eventually(10, lambda: state("unread ended") == 1), True)
PY

ends "an upgrade passes bytes both ways, and the end of each half" <<'PY'
c = Client()
c.send(b"GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
expect("status", c.reply(head_only=True).status, 101)
for n in (1, 1000, 100000):
    c.send(b"z" * n)
    expect("echo", c._bytes(n), b"z" * n)
c.s.shutdown(socket.SHUT_WR)
expect("bye", c.rest(), b"bye")
PY

ends "80 connections that are not kept get along with 64 ports" <<'PY'
for i in range(80):
    expect("reply", get("/close").body, b"closes")
PY

ends "80 requests at a time wait for 64 ports" <<'PY'
clients = [Client(timeout=30) for _ in range(80)]
for c in clients:
    c.send(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
expect("held", eventually(20, lambda: state("/hold") >= 50), True)
PY
short() { grep -q 'four/a: no further connection: all tcp.server_ports are in use' "$D/gw.log"; }
check "the log says so" within 10 short

cl ip addr del 10.99.0.77/24 dev "$CIF"
gw ip neigh flush all
ends "requests for an unresolved neighbour are refused" <<'PY'
expect("status", get("/away/x").status in (502, 503, 504), True)
PY
said() { [ "$(grep -c 'away/a: cannot connect to 10.99.0.77:8001' "$D/gw.log")" = 1 ]; }
check "one line says that it cannot be reached" said
cl ip addr add 10.99.0.77/24 dev "$CIF"
back() { [ "$(cl curl -s -m 5 "http://$V4:8080/away/x")" = ok ]; }
check "it is used again once it is there" within 30 back

config 20000-20127 | gateway_config
kill -HUP "$(gateway_child)"
kept() { grep -q 'server_ports.*restart\|restart.*server_ports' "$D/gw.log"; }
check "other ports need a restart, which a reload says" within 20 kept
ends "the server is used as before" <<'PY'
expect("released", get("/release").body, b"ok")
expect("next", get("/x").body, b"ok")
PY

resets() { cl curl -sf http://10.99.0.2:8001/state | grep -o 'reset by peer": [0-9]*' | grep -o '[0-9]*$'; }
before=$(resets)
gateway_end
more() { [ "$(resets)" -gt "$before" ]; }
check "a gateway that ends leaves no connection at the server" within 10 more
exit_with_counts
