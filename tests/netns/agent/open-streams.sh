#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A WebSocket and events are open through an agent while things change: a reload leaves them alone, also when their server
# leaves the configuration; a drain ends the one in order, and lets the other be until its deadline; a server that is killed ends them, and none looks whole.
. "$(dirname "$0")/../lib.sh"

arena
start_server() {
	rm -f "$D/server.log" # or what the one before said would be found
	nsenter --net="/run/netns/$G" /usr/bin/python3 "$here/agent/upgrade_server.py" 127.0.0.1 8000 8001 >"$D/server.log" 2>&1 </dev/null &
	pid_of[server]=$!
	within 30 grep -qs listening "$D/server.log" || { cp "$D/server.log" "$D/out"; say_failed "the server does not start"; }
}
start_server
config() {
	cat <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
limits { drain_timeout = 8s }
route "/fixed" { respond { status = 200 body = "$1" } }
CONF
	[ "$1" = without ] || cat <<CONF
pool hand { backend a { endpoint = "http://127.0.0.1:8001" } }
route "/hand" { pool = hand stream = yes upgrade = {"websocket"} strip_prefix = yes }
CONF
}
config with | gateway_config
gateway_start

# Both are opened, then files in $D say what has happened: the client makes `open`, and goes on when there is `NAME`.
cat >"$D/streams.py" <<'PY'
from raw import *
import os
D = os.path.dirname(os.path.abspath(__file__))
def tell(name):
    open(f"{D}/{name}", "w").close()
def told(name):
    expect("told: " + name, eventually(30, lambda: os.path.exists(f"{D}/{name}")), True)
def opened(path, fields=""):
    c = Client(timeout=30)
    c.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode())
    while b"\r\n\r\n" not in c.buf:
        c._more()
    head, c.buf = c.buf.split(b"\r\n\r\n", 1)
    return c, int(head.split()[1])
def both():
    ws, status = opened("/hand/eager", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n")
    expect("upgrade", (status, ws._bytes(5)), (101, b"first"))
    events, status = opened("/hand/events")
    expect("events", status, 200)
    go_on(ws, events)
    return ws, events
def go_on(ws, events):
    ws.send(b"again" * 1000)
    expect("again", ws._bytes(5000), b"again" * 1000)
    events.buf = b""
    while events.buf.count(b"data: 1") < 3:
        events._more()
PY
# streams NAME COMMAND <<PY: the client runs the program, and the command when its streams are open; then it is told NAME.
streams() {
	local name=$1 client
	shift
	rm -f "$D/open" "$D/$name"
	{ echo 'from streams import *'; cat; } >"$D/$name.py"
	cl timeout 200 /usr/bin/python3 "$D/$name.py" </dev/null &
	client=$!
	within 30 test -e "$D/open" || { wait $client; return 1; }
	"$@" || { kill $client; return 1; }
	touch "$D/$name"
	wait $client
}
reload_without() {
	config without | gateway_config
	gw "$SLUICE" reload -c "$D/gw.conf"
}
reloaded() {
	streams reloaded reload_without <<'PY'
ws, events = both()
tell("open")
told("reloaded")
expect("in force", get("/fixed").body, b"without")
expect("the route has gone", get("/hand/seen").status, 404)
for _ in range(10):
    go_on(ws, events)
    time.sleep(0.1)
ws.s.shutdown(socket.SHUT_WR)
expect("an orderly end", ws.rest(), b"")
PY
}
check "a reload without their server leaves them alone" reloaded
config with | gateway_config
gw "$SLUICE" reload -c "$D/gw.conf" >"$D/out" 2>&1 || say_failed "reload"
served() { [ "$(cl curl -sS -m 5 -o /dev/null -w '%{http_code}' "http://$V4:8080/hand/seen")" = 200 ]; }
check "the server is there again" within 30 served
# Also where it had not gone yet, and for good.
stays() {
	streams stays reload_and_back <<'PY'
ws, events = both()
tell("open")
told("stays")
expect("in force", get("/fixed").body, b"again")
expect("served", eventually(20, lambda: get("/hand/seen").status == 200), True)
for _ in range(50):
    expect("served", get("/hand/seen").status, 200)
    time.sleep(0.02)
go_on(ws, events)
PY
}
reload_and_back() {
	reload_without && config again | gateway_config && gw "$SLUICE" reload -c "$D/gw.conf"
}
check "one that is brought back while streams of it are open stays" stays

kill_server() {
	kill -KILL "${pid_of[server]}"
	wait "${pid_of[server]}" 2>/dev/null
	return 0
}
killed() {
	streams killed kill_server <<'PY'
ws, events = both()
tell("open")
told("killed")
expect("nothing more", ws.rest(), b"")
last = events.rest()
expect("no end of a reply that was broken off", last.endswith(b"0\r\n\r\n"), False)
PY
}
check "a server that is killed ends them, and no reply looks whole" killed
start_server
check "and serves again" within 30 served

drain() { kill -TERM "$gateway_pid"; }
drained() {
	streams drained drain <<'PY'
ws, events = both()
tell("open")
told("drained")
began = time.monotonic()
expect("the WebSocket ends in order", ws.s.recv(10), b"")
while time.monotonic() - began < 1:
    events._more()
events.rest()
took = time.monotonic() - began
expect(f"not before the drain's time: {took:.1f} s", took > 1, True)
PY
}
check "a drain ends the WebSocket in order, and lets the events be until its deadline" drained
ended() { ! alive "$gateway_pid"; }
check "and the gateway ends" within 20 ended
wait "$gateway_pid" 2>/dev/null
gateway_pid=''
finish
