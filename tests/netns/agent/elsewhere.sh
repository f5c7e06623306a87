#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An agent by hand on another host, reached by tcp:// with a key: requests, streams, its end; and 1,256 connections to
# one server.
. "$(dirname "$0")/../lib.sh"

arena
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$D/key"
chgrp "$(id -g "$RUN_AS")" "$D/key"
chmod 640 "$D/key"
# The client's host has the server too.
nsenter --net="/run/netns/$C" /usr/bin/python3 "$here/agent/stream_server.py" 127.0.0.1:8000 >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
start_agent() {
	rm -f "$D/agent.log" # or what the one before said would be found
	nsenter --net="/run/netns/$C" "$SLUICE" agent --listen tcp://10.99.0.2:7471 --to http://localhost:8000 --key-file "$D/key" \
		--concurrency 2000 --user nobody >"$D/agent.log" 2>&1 </dev/null &
	pid_of[agent]=$!
	within 30 grep -qs '^agent: 1 server' "$D/agent.log"
}
check "the agent starts" start_agent
walled() { grep -qP "^Uid:\t$(id -u nobody)\t" "/proc/${pid_of[agent]}/status" && grep -q '^NoNewPrivs:.*1$' "/proc/${pid_of[agent]}/status" && grep -q '^Seccomp:.*2$' "/proc/${pid_of[agent]}/status" && grep -q '^CapEff:.*0000$' "/proc/${pid_of[agent]}/status"; }
[ "${SL_SANITIZED:-}" = 1 ] || check "as an account without rights, behind walls" walled
gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
limits { max_exchanges = 8192 address_exchanges = 1 address_reading = 1 max_connections = 8192 address_connections = 1 }
pool far { max_queue = 4096 batch { policy = direct max_latency = 60s } backend a { endpoint = "tcp://10.99.0.2:7471" key_file = "$D/key" } }
route "/" { pool = far strip_prefix = no forward_headers = {"*"} deadline = 120s }
route "/stream" { pool = far stream = yes forward_headers = {"*"} }
CONF
check_py "requests and streams go by it" <<'PY'
from raw import *
r = post("/echo", b"x" * 300000)
expect("whole", (r.status, r.body == b"x" * 300000), (200, True))
c = Client()
c.send(b"POST /stream/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
for w in (b"one", b"two"):
    c.send(b"%x\r\n%s\r\n" % (len(w), w))
    while not c.buf.endswith(w + b"\r\n"):
        c._more()
c.send(b"0\r\n\r\n")
PY
check_py "1,000 idle and 256 busy connections to one server" <<'PY'
from raw import *
import json
def state():
    return json.loads(get("/conns").body)
def hold(name, n):
    socks = []
    for _ in range(n):
        c = Client(timeout=60)
        c.send(b"POST /deaf?%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" % name)
        socks.append(c)
    return socks
first, busy = hold(b"first", 1000), hold(b"busy", 256)
expect("all wait", eventually(30, lambda: state()[1] == 1256), True)
get("/wake?first")
for c in first:
    expect("first", c.reply().status, 200)
conns, waiting = state()
expect("idle ones are kept", (conns >= 1256, waiting), (True, 256))
for i in range(300):
    expect("served", post("/echo", b"%d" % i).body, b"%d" % i)
expect("by those that are there", state()[0] <= conns, True)
get("/wake?busy")
for c in busy:
    expect("busy", c.reply().status, 200)
PY
refusals() { ! grep '^sandbox: refused' "$D/agent.log"; }
check "no system call is refused" refusals
agent_ends() { end_process "${pid_of[agent]}" 20 && [ "$status" = 0 ]; }
check "SIGTERM ends it" agent_ends
unset "pid_of[agent]"
check "and it comes back" start_agent
served() { [ "$(cl curl -sS -m 5 "http://$V4:8080/conns" -o /dev/null -w '%{http_code}')" = 200 ]; }
check "and is found" within 30 served
finish
