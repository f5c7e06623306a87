#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Connections of the worker's own TCP to an unmodified server (via = stack): what passes, a server that dies and returns,
# two workers, and a reload. The server is in the client's namespace, beyond the interface with XDP.
. "$(dirname "$0")/../lib.sh"

arena 2
server() {
	rm -f "$D/server.log"
	nsenter --net="/run/netns/$C" /usr/bin/python3 "$here/agent/server.py" 10.99.0.2:8000 >"$D/server.log" 2>&1 </dev/null &
	pid_of[server]=$!
	within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
}
config() {
	cat <<CONF
interface "$GIF" { }
workers { count = 2 }
listener v4 { address = "$V4" port = 8080 }
limits { address_frames = 1 max_body = 16m }
tcp { server_ports = "20000-29999" }
pool own { backend a { endpoint = "http://10.99.0.2:8000" via = stack $1 } }
pool agent { backend a { endpoint = "http://10.99.0.2:8000" } }
route "/own" { pool = own strip_prefix = yes forward_headers = {"*"} }
route "/agent" { pool = agent strip_prefix = yes forward_headers = {"*"} }
CONF
}
server
config "" | gateway_config
gateway_start
take_baseline

check_py "replies and bodies are those that an agent passes, over each worker's connections" <<'PY'
from raw import *
import hashlib
for n in range(24):
    for path in ("/own", "/agent"):
        r = ask(f"GET {path}/head HTTP/1.1\r\nHost: www\r\nX-A: {n}\r\n\r\n".encode())
        expect("status", r.status, 200)
        expect("target", r.body.decode().split("\r\n")[0], "GET /head HTTP/1.1")
        body = b"x" * (n * 20000)
        c = Client(timeout=60)
        c.send(b"POST %s/sum HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body)
        expect("body", c.reply().body.decode(), hashlib.sha256(body).hexdigest())
PY
check "status names the way" within 10 eval "admin /stats | grep -q '\"stack\"' && gw '$SLUICE' status -c '$D/gw.conf' | grep -q 'own/a, own TCP of worker 1: up'"

handed() { gw "$SLUICE" status -c "$D/gw.conf" | grep -q '  replies of servers: handed over between workers: RSS cannot be read: Operation not supported'; }
check "and that veth has no RSS" handed

end_process "${pid_of[server]}" 5
check_py "a server that has died is a 503 or 502" <<'PY'
from raw import *
for n in range(4):
    expect("status", ask(b"GET /own/head HTTP/1.1\r\nHost: www\r\n\r\n").status in (502, 503, 504), True)
PY
server
up() { cl curl -sf "http://$V4:8080/own/head" >/dev/null; }
check "a server that returns is used again" within 30 up

config 'host = "other.example"' | gateway_config
kill -HUP "$(gateway_child)"
renamed() { cl curl -sf "http://$V4:8080/own/head" | grep -q 'host: other.example'; }
check "a reload replaces the server" within 30 renamed
finish
