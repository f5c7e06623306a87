#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume
# Backends slower than the bound, deadlines, cancelled requests, and clients that take more than their share.
. "$(dirname "$0")/../lib.sh"

arena
ip -n "$C" addr add 10.99.0.3/24 dev "$CIF"

backend slow echo --delay-us 200000
backend hold tests/netns/hold --until "$D/go"
backend busy echo --delay-us 20000
gateway <<CONF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool slow { backend a { endpoint = "shm://$D/slow.sock" } }
pool hold { batch { max_latency = 60s max_size = 1 } backend a { endpoint = "shm://$D/hold.sock" } }
pool shared { batch { max_latency = 10s max_size = 4 } max_queue = 32 backend a { endpoint = "shm://$D/busy.sock" } }
pool named {
	batch { max_latency = 10s max_size = 4 }
	max_queue = 32
	fair_by = header
	fair_header = "x-client"
	backend a { endpoint = "shm://$D/busy.sock" }
}
route "/slow" { pool = slow deadline_header = "x-left-ms" }
route "/hold" { pool = hold strip_prefix = no deadline_header = "x-left-ms" }
route "/late" { pool = hold strip_prefix = no deadline = 300ms }
route "/sluice.demo.hold/" { pool = hold strip_prefix = no }
route "/shared" { pool = shared }
route "/named" { pool = named }
CONF

# --- a backend that cannot keep the default bound of 50 ms ---

cat >"$D/ask.py" <<'EOF'
import collections
from raw import *
path, clients, each = sys.argv[1], [Client(timeout=60) for _ in range(int(sys.argv[2]))], int(sys.argv[3])
seen = collections.Counter()
for _ in range(each):
    for c in clients:
        c.send(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
    seen.update(c.reply().status for c in clients)
expect("replies", dict(seen), {200: len(clients) * each})
EOF
ask() { cl timeout 200 python3 "$D/ask.py" "$@"; }
answered() { cl curl -sf --max-time 5 "http://$V4:8080$1" >/dev/null; }
restart_slow() {
	kill_backend slow
	backend slow echo "$@"
	within 30 answered /slow
}
check "eight clients at once, and nothing is known yet" ask /slow 8 1
check "one after the other finds it idle: none is shed" ask /slow 1 8
check "it comes back fast" restart_slow --delay-us 1000
check "one after the other: all are served" ask /slow 1 20
check "it comes back slow" restart_slow --delay-us 300000
check "one after the other: none is shed" ask /slow 1 8

# --- deadlines ---

# 300 ms are known, 20 ms are left: refused at once with the word when to try again, and not sent.
before=$(stat_sum core.batched)
check_py "hopeless requests are refused" <<'EOF'
from raw import *
c = Client()
def ask(headers=""):
    c.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n%s\r\n" % headers.encode())
    return c.reply()
for i in range(3):
    expect("status with time", ask().status, 200)
    r = ask("X-Left-Ms: 20\r\n")
    expect("status without", r.status, 503)
    expect("retry-after is there", "retry-after" in r.headers, True)
EOF
check "and never sent" [ $(($(stat_sum core.batched) - before)) -eq 3 ]

# Two requests are at the backend, a batch each, and stay there: what comes now waits in the queue.
cat >"$D/held.py" <<'EOF'
from raw import *
held = [Client(timeout=60) for _ in range(2)]
for c, name in zip(held, (b"first", b"second")):
    c.send(b"GET /hold/%s HTTP/1.1\r\nHost: x\r\n\r\n" % name)
for c in held:
    expect("status", c.reply().status, 200)
EOF
held_log() { cat "$D/hold.log"; grep -q "$1" "$D/hold.log"; }
nsenter --net="/run/netns/$C" timeout 90 python3 "$D/held.py" >"$D/held" 2>&1 9>&- </dev/null &
pid_of[held]=$!
check "the backend has one" within 30 held_log "took /hold/first"
check "and another, because the first one takes so long" within 30 held_log "took /hold/second"
check_py "what expires in the queue: 504, by header and by route" <<'EOF'
from raw import *
expect("by header", get("/hold/header", headers="X-Left-Ms: 200\r\n").status, 504)
expect("by route", get("/late/route").status, 504)
EOF
cat >"$D/call.py" <<'EOF'
import sys, time, grpc
with grpc.insecure_channel(sys.argv[1]) as ch:
    call = ch.unary_unary("/sluice.demo.hold/" + sys.argv[2]).future(b"x", timeout=float(sys.argv[3]))
    if sys.argv[4] == "cancel":
        while not any(l.startswith("took ") and sys.argv[2] in l for l in open(sys.argv[6])):
            time.sleep(0.05)
        call.cancel()
    assert call.code() == grpc.StatusCode[sys.argv[5]], call.code()
    time.sleep(0.2)
EOF
grpc_call() { cl timeout 200 /usr/bin/python3 "$D/call.py" "$V4:8080" "$@"; }
check "and by grpc-timeout" grpc_call Expires 0.3 wait DEADLINE_EXCEEDED
check_py "a client that leaves takes its request along" <<'EOF'
from raw import *
c = Client()
c.send(b"GET /hold/left HTTP/1.1\r\nHost: x\r\n\r\n")
time.sleep(0.2)
c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
c.close()
EOF
gone() { [ "$(stat_sum exchanges_used)" -le 2 ]; }
check "out of the queue" within 30 gone
: >"$D/go"
wait "${pid_of[held]}"
status=$?
unset "pid_of[held]"
check "those at the backend are answered" eval "cat '$D/held'; [ $status -eq 0 ]"
check "nothing that ended in the queue was sent" eval '! grep -e header -e route -e Expires -e left "$D/hold.log"'
rm -f "$D/go"

# --- CANCEL ---

check_py "a client leaves while its request is computed" "$D/hold.log" <<'EOF'
from raw import *
c = Client()
c.send(b"GET /hold/gone HTTP/1.1\r\nHost: x\r\n\r\n")
expect("taken", eventually(20, lambda: "took /hold/gone" in open(sys.argv[1]).read()), True)
c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
c.close()
EOF
check "the backend learns of it" within 30 held_log "cancelled /hold/gone"
check "a gRPC client cancels" grpc_call Cancelled 50 cancel CANCELLED "$D/hold.log"
check "the backend learns of it, too" within 30 held_log "cancelled .*Cancelled"
: >"$D/go"

# --- shares ---

# A flood of many times what can be served, against a client with one request after the other.
cat >"$D/polite.py" <<'EOF'
import collections
from raw import *
path, source = sys.argv[1], sys.argv[2]
seen = collections.Counter()
c = Client.__new__(Client)
c.s, c.buf = socket.create_connection((V4, PORT), timeout=30, source_address=(source, 0)), b""
for i in range(40):
    c.send(f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Client: polite\r\n\r\n".encode())
    seen[c.reply().status] += 1
expect("polite client", dict(seen), {200: 40})
EOF
cat >"$D/flood.py" <<'EOF'
import collections, os, threading
from raw import *
path, name = sys.argv[1], sys.argv[2]
seen = collections.Counter()
def run():
    c = Client(timeout=60)
    while not os.path.exists(name + ".stop"):
        c.send(f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Client: flood\r\n\r\n".encode())
        r = c.reply()
        seen[r.status] += 1
        if r.status != 200:
            if seen[r.status] >= 100:
                open(name + ".full", "w").close()
            time.sleep(0.02)
threads = [threading.Thread(target=run) for i in range(100)]
[t.start() for t in threads]
[t.join() for t in threads]
print(dict(seen))
sys.exit(not (seen[200] and seen[429]))
EOF
# share PATH POLITE-SOURCE
share() {
	local flood ok=1
	rm -f "$D"/flood.{stop,full}
	nsenter --net="/run/netns/$C" timeout 100 python3 "$D/flood.py" "$1" "$D/flood" >"$D/flood" 2>&1 9>&- </dev/null &
	flood=$!
	within 30 test -e "$D/flood.full" || ok=0
	cl timeout 200 python3 "$D/polite.py" "$1" "$2" || ok=0
	: >"$D/flood.stop"
	wait "$flood" || ok=0
	cat "$D/flood"
	[ $ok -eq 1 ] || admin /stats | python3 -c '
import json, sys
o = json.load(sys.stdin)
print({k: n for k, n in o["workers"][0]["core"]["outcomes"].items() if n})
print([s["live"] for s in o["pools"] if s["pool"] in ("shared", "named")])'
	[ $ok -eq 1 ]
}
check "by address: one at a time is always served, the flood gets 429" share /shared 10.99.0.3
check "by header, from one address" share /named 10.99.0.2
finish
