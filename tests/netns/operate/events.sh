#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `sluice events` has a line for each finished request that its filter matches, without an access log. A reader that
# does not read misses lines, and requests go on.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
backend slow echo --delay-us 300000
gateway <<END
interface $GIF { }
listener web { address = "$V4" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
pool slow { batch { max_latency = 10s } backend s { endpoint = "shm://$D/slow.sock" } }
route "/echo" { pool = echo }
route "/slow" { pool = slow }
route "/sluice.demo.Echo/" { pool = echo }
END

# reader NAME OPTION...: reads events into $D/NAME
reader() {
	local name=$1
	shift
	gw "$SLUICE" events --admin "/run/sluice/$GIF.sock" "$@" >"$D/$name" 2>"$D/$name.err" </dev/null &
	pid_of[$name]=$!
}
ask() { cl curl -s -o /dev/null "$@"; }
# The first request that a reader sees tells that it reads.
first_seen() {
	ask "http://$V4:8080/$2/first"
	grep -q "/first" "$D/$1"
}
reads() { within 20 first_seen "$1" "$2"; }

reader all --json
reader errors --status 4xx
reader late --slow 250ms
reader pool --pool slow
reader one --status 404 --count 1
check "a reader of all" reads all echo
check "a reader of errors" reads errors none
check "a reader of slow requests" reads late slow
check "a reader of one pool" reads pool slow
has() { within 20 grep -q "$2" "$D/$1"; }
ask "http://$V4:8080/echo/x" && ask "http://$V4:8080/nowhere" && ask "http://$V4:8080/slow/y"
cat >"$D/call.py" <<'END'
import grpc
try:
    grpc.insecure_channel("10.99.0.1:8080").unary_unary("/no.Such/Thing", lambda m: m, lambda m: m)(b"", timeout=20)
except grpc.RpcError as e:
    assert e.code() == grpc.StatusCode.UNIMPLEMENTED, e
END
check "a gRPC call" cl timeout 200 /usr/bin/python3 "$D/call.py"
check "all: a request" has all '"path": "/echo/x".* "status": 200'
check "all: an error" has all '"path": "/nowhere".* "status": 404'
check "all: a call, with its gRPC status" has all '"path": "/no.Such/Thing".* "grpc_status": 12'
check "errors: a line of text" has errors '^[0-9:.]* 404 GET /nowhere '
check "late: the pool, the backend and the times" has late '^[0-9:.]* 200 GET /slow/y -> slow/s [0-9.]*ms (queue .* backend .*) ok$'
check "pool: the same request" has pool '/slow/y'
check "errors: nothing else" eval '! grep -q " 200 " "$D/errors"'
check "late and pool: nothing else" eval '! grep -q "/echo" "$D/late" "$D/pool"'
check "one: ends by itself" within 20 eval '! kill -0 ${pid_of[one]} 2>/dev/null'
check "after one line" test "$(wc -l <"$D/one")" = 1
wait "${pid_of[one]}"
unset "pid_of[one]"

refused() { ! gw "$SLUICE" events --admin "$@" && gw "$SLUICE" events --admin "$@" 2>&1 | grep -q "allowed:"; }
check "a status that is none is refused" refused "/run/sluice/$GIF.sock" --status 6xx
check "TCP is refused" refused 127.0.0.1:9900

# --- a reader that does not read ---

for name in all errors late pool; do kill_backend $name; done
cat >"$D/stuck.py" <<'END'
"""Asks for all requests, and reads on once the file of the second argument exists. Before that it reads so slowly that it
misses lines, and is not taken for dead."""
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"GET /requests HTTP/1.0\r\nHost: x\r\n\r\n")
s.settimeout(60)
buf = b""
while b'{"missed": ' not in buf:
    if not os.path.exists(sys.argv[2]):
        time.sleep(2)
    chunk = s.recv(1 << 16)
    if not chunk:
        sys.exit("the gateway has closed")
    buf = buf[-100:] + chunk
END
gw timeout 120 /usr/bin/python3 "$D/stuck.py" "/run/sluice/$GIF.sock" "$D/go" &
pid_of[stuck]=$!
missed() { [ "$(metric sluice_event_lines_missed_total)" -gt 0 ]; }
load() {
	cl h2load --h1 -t1 -c8 -n5000 "http://$V4:8080/echo/load" >"$D/h2load" 2>&1
	grep -q "5000 succeeded" "$D/h2load" && missed
}
check "requests go on while lines are missed" within 60 load
touch "$D/go"
ask_and_see() {
	ask "http://$V4:8080/echo/more"
	! kill -0 "${pid_of[stuck]}" 2>/dev/null
}
check "the reader is told of them" within 30 ask_and_see
check "by its line" wait "${pid_of[stuck]}"
unset "pid_of[stuck]"
finish
