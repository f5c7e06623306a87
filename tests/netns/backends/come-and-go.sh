#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Backends come and go: nothing hangs, what may be repeated is repeated elsewhere, the rest gets a clear error.
. "$(dirname "$0")/../lib.sh"

arena
backend a echo --delay-us 2000
backend b echo --delay-us 2000
backend c echo --delay-us 90000000
backend d echo --delay-us 90000000
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool two {
	batch { max_latency = 10s }
	backend a { endpoint = "shm://$D/a.sock" }
	backend b { endpoint = "shm://$D/b.sock" }
}
pool all {
	batch { policy = direct max_latency = 60s }
	backend c { endpoint = "shm://$D/c.sock" }
	backend d { endpoint = "shm://$D/d.sock" }
}
route "/all" { pool = all deadline = 60s }
route "/echo" { pool = two deadline = 60s }
route "/again" { pool = two deadline = 60s idempotent = yes }
route "/soon" { pool = two deadline = 5s }
route "/" { respond { status = 200 body = "hello\n" } }
EOF

# Clients in the background, as many as make work for both backends; then a backend dies and comes back.
cat >"$D/load.py" <<'EOF'
import collections, json, os, threading
from raw import *
method, path, folder = sys.argv[1:]
seen, lock = collections.Counter(), threading.Lock()
def run(i):
    c = None
    while seen["200"] < 1000 or not os.path.exists(folder + "/killed"):
        try:
            c = c or Client(timeout=90)
            body = b"x" * 100
            if method == "GET":
                c.send(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
            else:
                c.send(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n" % path.encode() + body)
            r = c.reply()
            k = str(r.status)
            if r.closed:
                c = None
        except TimeoutError:
            k, c = "hang", None
        except OSError as e:
            k, c = type(e).__name__, None
        except EOFError:
            k, c = "closed", None
        with lock:
            seen[k] += 1
            if seen["200"] == 100:
                open(folder + "/under-way", "w").close()
threads = [threading.Thread(target=run, args=(i,)) for i in range(24)]
[t.start() for t in threads]
[t.join() for t in threads]
json.dump(seen, open(folder + "/seen", "w"))
EOF

# under_load METHOD PATH ALLOWED-STATUSES: with a backend that is killed twice in between
under_load() {
	rm -f "$D/under-way" "$D/killed"
	cl timeout 200 python3 "$D/load.py" "$1" "$2" "$D" &
	local load=$!
	within 60 test -e "$D/under-way"
	for _ in 1 2; do
		kill_backend a
		sleep 0.7
		backend a echo --delay-us 2000
		sleep 0.7
	done
	touch "$D/killed"
	wait "$load" || return 1
	cat "$D/seen"
	python3 - "$D/seen" "$3" <<'EOF'
import json, sys
seen = json.load(open(sys.argv[1]))
allowed = sys.argv[2].split(",")
sys.exit(not (seen["200"] >= 1000 and all(k in allowed for k in seen)))
EOF
}
check "GET while a backend is killed: all are answered" under_load GET /echo 200
check "POST that may be repeated: all are answered" under_load POST /again 200
check "POST that may not be repeated: answered, or a clear error" under_load POST /echo 200,502,503,504
check "after all that both are up" within 30 eval '[ "$(metric sluice_backend_up)" -eq 4 ]'

# Used again soon: the other one is gone, so only the one that comes back can answer.
kill_backend a
kill_backend b
check_py "no backend: 503 with Retry-After, after a wait for its return" <<'EOF'
from raw import *
r = get("/echo")
expect("status", r.status, 503)
expect("Retry-After", r.headers.get("retry-after", "").isdigit(), True)
expect("POST", post("/echo", b"x" * 50000).status, 503)
expect("fixed replies go on", get("/").status, 200)
EOF
not_ready() { admin /readyz | grep -q 'no backend of pool two'; }
check "not ready without backends" within 30 not_ready
backend a echo
check_py "a backend that is back is used again" <<'EOF'
from raw import *
expect("used", eventually(40, lambda: get("/echo/x").status == 200), True)
EOF
# The only one that is up restarts: what comes meanwhile waits for it, though the pool is no direct one.
restart() {
	kill_backend a
	cl curl -s -o "$D/restart" -w '%{http_code}' "http://$V4:8080/echo/x" >"$D/status" &
	local waits=$!
	backend a echo
	wait "$waits"
	cat "$D/status"
	[ "$(cat "$D/status")" = 200 ]
}
# On a busy host it may take longer than requests wait for it (SL_BATCH_PATIENCE_NS).
check "the only backend restarts: a request waits for it" within 60 restart
backend b echo
check "ready again" within 30 eval 'admin /readyz | grep -q ^ready'

# All backends of a pool lose 64 requests at once, and restart. The pool had no traffic before: it has 3 retries a second of
# ten seconds, and a fifth of one by each request.
cat >"$D/all.py" <<'EOF'
import collections, json
from raw import *
clients = [Client(timeout=90) for _ in range(64)]
for c in clients:
    c.send(b"GET /all/x HTTP/1.1\r\nHost: x\r\n\r\n")
print(json.dumps(collections.Counter(c.reply().status for c in clients)))
EOF
all_restart() {
	local client retried refused seconds=$SECONDS
	retried=$(metric sluice_retried_total) refused=$(metric sluice_retries_refused_total)
	cl timeout 100 python3 "$D/all.py" >"$D/statuses" &
	client=$!
	within 60 eval '[ "$(metric "sluice_backend_requests_sent_total{worker=\"0\",pool=\"all\"")" -ge 64 ]'
	kill -KILL "${pid_of[c]}" "${pid_of[d]}"
	backend c echo
	backend d echo
	wait "$client"
	seconds=$((SECONDS - seconds + 1))
	retried=$(($(metric sluice_retried_total) - retried)) refused=$(($(metric sluice_retries_refused_total) - refused))
	echo "$retried retried, $refused refused in $seconds s: $(cat "$D/statuses")"
	[ "$retried" -gt 0 ] && [ "$refused" -gt 0 ] && [ "$retried" -le $((64 / 5 + 3 * (seconds + 10))) ] &&
		python3 -c 'import json, sys; o = json.load(open(sys.argv[1])); sys.exit(not set(o) <= {"200", "502", "503"})' "$D/statuses"
}
check "all backends restart: retries stay within their budget" all_restart
check_py "and the gateway recovers" <<'EOF'
from raw import *
expect("used", eventually(40, lambda: [get("/all/x").status for _ in range(20)] == [200] * 20), True)
EOF

# The one request waits at `c`, whose death sends it to `d`, which started later.
elsewhere() {
	local retried client
	kill_backend d
	kill_backend c
	backend c echo --delay-us 90000000
	within 30 eval '[ "$(metric "sluice_backend_up{worker=\"0\",pool=\"all\",backend=\"c\"")" -eq 1 ]' || return 1
	retried=$(metric sluice_retried_total)
	cl curl -s --max-time 60 -o "$D/elsewhere" -w '%{http_code}' "http://$V4:8080/all/x" >"$D/status" &
	client=$!
	within 30 eval '[ "$(metric "sluice_backend_outstanding{worker=\"0\",pool=\"all\",backend=\"c\"")" -eq 1 ]' || return 1
	backend d echo
	within 30 eval '[ "$(metric "sluice_backend_up{worker=\"0\",pool=\"all\",backend=\"d\"")" -eq 1 ]' || return 1
	kill_backend c
	wait "$client"
	echo "status $(cat "$D/status"), retried: $retried, then $(metric sluice_retried_total)"
	[ "$(cat "$D/status")" = 200 ] && [ "$(metric sluice_retried_total)" -eq $((retried + 1)) ]
}
check "a request of a backend that dies is repeated elsewhere and counted" elsewhere

# One that stops without dying: its requests end with their deadline, and no one waits for ever.
kill -STOP "${pid_of[a]}" "${pid_of[b]}"
check_py "backends that stand still: 504 by the deadline" <<'EOF'
from raw import *
t = time.monotonic()
r = post("/soon", b"x")
print(r, time.monotonic() - t)
sys.exit(r.status not in (502, 503, 504))
EOF
kill -CONT "${pid_of[a]}" "${pid_of[b]}"
check "they answer again" within 30 eval 'cl curl -sf --max-time 5 http://$V4:8080/echo'
finish
