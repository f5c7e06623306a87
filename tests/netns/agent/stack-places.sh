#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# via = stack: connections that one client holds to one server leave the other servers their part of all connections.
. "$(dirname "$0")/../lib.sh"

arena
: >"$D/server.log"
nsenter --net="/run/netns/$C" /usr/bin/python3 "$here/agent/stack_server.py" 10.99.0.2 fd99::2 >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
# 4,096 frames: 128 connections of the worker to servers
gateway_config <<CONF
interface "$GIF" { ring_size = 64 }
listener v4 { address = "$V4" port = 8080 }
memory { frames = 8m }
limits { max_body = 1m }
tcp { server_ports = "20000-20999" }
pool four { backend a { endpoint = "http://10.99.0.2:8001" via = stack } }
pool six { backend a { endpoint = "http://[fd99::2]:8001" via = stack } }
pool crowd { backend a { endpoint = "http://10.99.0.2:8001" via = stack concurrency = 80 } }
route "/crowd" { pool = crowd }
route "/upgrade" { pool = four stream = yes upgrade = {"echo"} }
route "/six" { pool = six strip_prefix = yes }
CONF
gateway_start
cat >"$D/places.py" <<'PY'
from raw import *
import socket
expect("ready", eventually(20, lambda: get("/six/x").status == 200), True)
held = []
for i in range(200):
    c = Client(timeout=30)
    c.send(b"GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
    held.append(c)
accepted = sum(c.reply(head_only=True).status == 101 for c in held[:40])
expect("first upgrades", accepted, 40)
for i in range(10):
    c = Client(timeout=30)
    c.send(b"GET /six/hold HTTP/1.1\r\nHost: x\r\n\r\n")
    held.append(c)
expect("another server", get("/six/x").status, 200)
expect("released", get("/six/release").status, 200)
# The kernel repeats a lost FIN, but no reset.
for c in held:
    c.s.shutdown(socket.SHUT_WR)
for c in held:
    try:
        while c.s.recv(65536):
            pass
    except ConnectionResetError:
        pass
    c.close()
PY
take_baseline
check "200 upgrades of one client leave other servers their part" cl timeout 200 python3 "$D/places.py"
check "and no server is down" eval '! grep -E "six/a: cannot connect|six/a: too many" "$D/gw.log"'

check_py "80 connections are kept" <<'PY'
from raw import *
clients = [Client(timeout=60) for _ in range(80)]
for c in clients:
    c.send(b"GET /crowd HTTP/1.1\r\nHost: x\r\n\r\n")
for c in clients:
    expect("status", c.reply().status, 200)
PY
kept() { cl ss -Htn state established '( sport = :8001 )' | wc -l; }
check "they are" eval '[ "$(kept)" -ge 80 ]'
gateway_end
none() { [ "$(kept)" = 0 ]; }
check "a gateway that ends resets them all, of which a ring takes 64" within 10 none
exit_with_counts
