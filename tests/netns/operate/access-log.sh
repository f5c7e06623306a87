#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The access log: a line for each request with what its client was told, escaped, complete, and rotated under load.
. "$(dirname "$0")/../lib.sh"

arena
cl ip addr add 10.99.0.3/24 dev "$CIF"
backend echo echo
backend slow echo --delay-us 20000000
backend dead echo
backend lost echo --delay-us 20000000
mkdir "$D/log"
chown "$RUN_AS" "$D/log"
LOG=$D/log/access.log

config() {
	cat >"$D/gw.conf" <<EOF
user = $RUN_AS
interface $GIF { }
listener web { address = "$V4" port = 8080 protocols = {http, datagram} }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
pool slow { batch { max_latency = 10s } backend s { endpoint = "shm://$D/slow.sock" } }
pool dead { batch { max_latency = 10s } backend d { endpoint = "shm://$D/dead.sock" } }
pool lost { batch { max_latency = 10s } backend l { endpoint = "shm://$D/lost.sock" } }
route "/echo" { pool = echo max_body = 1000 datagram_service = 7 }
route "/sluice.demo.Echo/" { pool = echo }
route "/slow" { pool = slow deadline_header = "x-left-ms" }
route "/dead" { pool = dead }
route "/lost" { pool = lost idempotent = no }
route "/get" { respond { status = 200 body = "got\n" } methods = {GET} }
access_log { file = "$1" $2 }
EOF
}
check "a log without a file is a mistake" eval 'config - ""; sed -i "s/^access_log.*/access_log { }/" "$D/gw.conf"
	"$SLUICE" check -c "$D/gw.conf" 2>&1 | grep -q "found access_log without file"'

config "$LOG" ""
gateway_start
kill_backend dead
within 30 eval '[ "$(metric "sluice_backend_up{worker=\"0\",pool=\"dead\"")" = 0 ]' || say_failed "dead is not seen to be"

cat >"$D/access_lines.py" <<'EOF'
"""The lines of the access log, by what was asked for."""
import json, sys, time
from raw import *

FILE = sys.argv[1]

def lines():
    return [json.loads(l) for l in open(FILE, encoding="utf-8")]

def line_of(path, **more):
    for i in range(200):
        found = [l for l in lines() if l["path"] == path]
        if found:
            break
        time.sleep(0.05)
    expect("lines of " + path, len(found), 1)
    for k, v in more.items():
        expect(path + " " + k, found[0].get(k), v)
    l = found[0]
    stages = [l[s + "_ns"] for s in ("wire", "parse", "queue", "backend", "reply")]
    expect(path + ": each moment is in one stage", sum(stages), l["total_ns"])
    expect(path + ": from where", (l["peer"], l["listener"]), ("10.99.0.2", "web"))
    return l
EOF

export PYTHONPATH=$PYTHONPATH:$D
check_py "each outcome has a line with the status that its client got" "$LOG" <<'EOF'
import socket, struct
from access_lines import *
def ask_for(path, wanted, head=b"", body=b"", method=b"GET"):
    r = ask(method + b" " + path.encode() + b" HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n" + body)
    expect(path, r.status, wanted)
ask_for("/echo/ok", 200, b"Content-Length: 5\r\n", b"hello", b"POST")
ask_for("/get", 200)
ask_for("/nowhere", 404)
ask_for("/get/post", 405, b"Content-Length: 0\r\n", method=b"POST")
ask_for("/echo/large", 413, b"Content-Length: 1001\r\n", method=b"POST")
ask_for("/slow/late", 504, b"x-left-ms: 100\r\n")
ask_for("/dead/x", 503)
c = Client()
c.send(b"GET /slow/gone HTTP/1.1\r\nHost: x\r\n\r\n")
time.sleep(2)
c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
port = c.s.getsockname()[1]
c.s.close()

l = line_of("/echo/ok", status=200, outcome="ok", method="POST", protocol="http1", route="/echo", pool="echo", backend="a",
            batch=1, request_bytes=5, reply_bytes=5, retries=0)
expect("the backend took its time", l["backend_ns"] > 0 and l["backend_ns"] >= l["service_ns"], True)
expect("said of itself", (l["host"], l.get("user_agent"), l["reason"]), ("x", None, "answered by a backend"))
line_of("/get", status=200, outcome="fixed", reply_bytes=4, pool=None, backend=None, batch=0)
line_of("/nowhere", status=404, outcome="no_route", reason="no route matches this path", route=None)
line_of("/get/post", status=405, outcome="method")
line_of("/echo/large", status=413, outcome="too_large")
line_of("/slow/late", status=504, outcome="expired")
line_of("/dead/x", status=503, outcome="no_backend", batch=0, reason="no backend available")
l = line_of("/slow/gone", status=499, outcome="client_gone", peer_port=port)
expect("the client waited for the backend", l["backend_ns"] + l["queue_ns"] > 100_000_000, True)
EOF

cl curl -s -o /dev/null -w '%{http_code}' "http://$V4:8080/lost/x" >"$D/lost.status" 2>&1 &
asked=$!
within 30 eval '[ "$(metric "sluice_backend_outstanding{worker=\"0\",pool=\"lost\"")" = 1 ]' || say_failed "the request is not under way"
kill_backend lost
wait $asked
check_py "a backend that went away" "$LOG" "$(cat "$D/lost.status")" <<'EOF'
from access_lines import *
expect("status", sys.argv[2], "502")
line_of("/lost/x", status=502, outcome="backend_lost", backend="l", batch=1)
EOF

# The distribution's Python is the one that has grpcio.
cat >"$D/protocols.py" <<'EOF'
import subprocess
import grpc, datagram_client
from access_lines import *
subprocess.run(["curl", "-sf", "--http2-prior-knowledge", "-o", "/dev/null", "http://10.99.0.1:8080/echo/two"], check=True)
channel = grpc.insecure_channel("10.99.0.1:8080")
call = channel.unary_unary("/sluice.demo.Echo/Echo", lambda m: m, lambda m: m)
expect("gRPC", call(b"12345", timeout=20), b"12345")
try:
    channel.unary_unary("/no.Such/Thing", lambda m: m, lambda m: m)(b"", timeout=20)
except grpc.RpcError as e:
    expect("gRPC status", e.code(), grpc.StatusCode.UNIMPLEMENTED)
r = datagram_client.Client("10.99.0.1", 8080).ask(7, b"abc", method=b"sum")
expect("datagram", (r.status, r.payload), (0, b"abc"))
line_of("/echo/two", status=200, outcome="ok", protocol="http2")
line_of("/sluice.demo.Echo/Echo", status=200, grpc_status=0, outcome="ok", protocol="grpc", request_bytes=5)
line_of("/no.Such/Thing", status=200, grpc_status=12, outcome="no_route", protocol="grpc")
line_of("sum", status=200, outcome="ok", protocol="datagram", request_bytes=3, reply_bytes=3, route="/echo")
EOF
check "HTTP/2, gRPC and datagrams" cl timeout 200 /usr/bin/python3 "$D/protocols.py" "$LOG"

check_py "what a client sends is escaped" "$LOG" <<'EOF'
import datagram_client
from access_lines import *
datagram_client.Client("10.99.0.1", 8080).ask(7, method=b'"}\n{"\x1b[31m\0\xff')
line_of('"}\n{"\x1b[31m\0\ufffd', protocol="datagram", status=200)
EOF

# --- nothing is lost, not under load and not while the file is moved ---

check "the file is its account's, and not for all to read" test "$(stat -c '%U %a' "$LOG")" = "$RUN_AS 640"
rm -f "$D"/log/access.log.*
before=$(wc -l <"$LOG")
cl h2load --h1 -t1 -c8 -n10000 "http://$V4:8080/echo/many" >"$D/h2load" 2>&1 &
load=$!
within 30 eval '[ "$(wc -l <"$LOG")" -gt "$((before + 100))" ]'
mv "$LOG" "$LOG.1"
kill -USR1 "$gateway_pid"
answered() { cl curl -sf "http://$V4:8080/echo/after" >/dev/null && test -s "$LOG"; }
check "it goes on in a new file on SIGUSR1" within 30 answered
mv "$LOG" "$LOG.2"
wait $load
check "and when it was renamed" within 30 answered
check "the load was answered" grep -q "10000 succeeded" "$D/h2load"
all_there() { [ "$(cat "$LOG" "$LOG.1" "$LOG.2" | grep -c '"/echo/many"')" = 10000 ]; }
check "10000 requests have 10000 lines" within 30 all_there
check "all of them parse" python3 -c 'import json, sys; [json.loads(l) for f in sys.argv[1:] for l in open(f)]' "$LOG" "$LOG.1" "$LOG.2"
check "none was dropped" test "$(metric sluice_access_log_dropped_total)" = 0
# The gateway may see by itself that it was renamed, and make a new one in between.
until mkdir "$LOG" 2>/dev/null; do mv "$LOG" "$LOG.3"; done
kill -USR1 "$gateway_pid"
check "a file that cannot be opened is told of" within 30 grep -q "access log: $LOG cannot be opened again, the old file is written on" "$D/gw.log"
rmdir "$LOG"

# --- shares and formats, changed while it runs ---

check "a file comes when it can" within 30 answered
config "$LOG" "format = combined sample = 0.25"
kill -HUP "$gateway_pid"
check "format and share are taken by a reload" within 30 grep -q "reload: in force: .*access_log" "$D/gw.log"
sleep 1.2
: >"$LOG"
cl h2load --h1 -t1 -c4 -n400 "http://$V4:8080/echo/share" >"$D/h2load" 2>&1
cl curl -s -o /dev/null "http://$V4:8080/no/such" >"$D/out"
form='^10\.99\.0\.2 - - \[[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9:]{8} \+0000\] "GET'
check "errors have their line" within 30 grep -qE "$form /no/such HTTP/1\.1\" 404 [0-9]+ \"-\" \"curl/[0-9.]+\"\$" "$LOG"
check "of the rest the share" eval '[ "$(grep -cE "$form /echo/share HTTP/1\.1\" 200 [0-9]+ \"-\" \"h2load [^ ]+\"\$" "$LOG")" = 100 ]'
gateway_end

backend dead echo
backend lost echo
config - ""
gateway_start
cl curl -sf "http://$V4:8080/get" >"$D/out"
check "standard output" within 30 grep -q '^{"time": .*"path": "/get"' "$D/gw.log"
gateway_end

sed -i '/^access_log/d' "$D/gw.conf"
gateway_start
cl curl -sf "http://$V4:8080/get" >"$D/out"
check "no log unless it is asked for" eval '! grep -q "^{" "$D/gw.log"'
gateway_end
finish
