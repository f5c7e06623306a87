#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ordinary clients get what they ask for, over IPv4 and IPv6, and the kernel keeps the rest of the interface.
. "$(dirname "$0")/../lib.sh"

arena
backend echo-a echo
backend echo-b echo
"$BUILD/score" --make-matrix 500 --matrix "$D/matrix" --dim 32 >/dev/null
backend score score --matrix "$D/matrix" --dim 32 --top 5
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
listener v6 { address = "$V6" port = 8080 }
pool echo {
	batch { max_latency = 10s }
	backend a { endpoint = "shm://$D/echo-a.sock" }
	backend b { endpoint = "shm://$D/echo-b.sock" }
}
pool score { batch { max_latency = 10s } backend a { endpoint = "shm://$D/score.sock" } }
route "/echo" { pool = echo }
route "/score" { pool = score methods = {POST} }
route "/" { respond { status = 200 body = "hello\n" content_type = "text/plain" } }
EOF

hello() { [ "$(cl curl -sS -g --max-time 10 "http://$1:8080/")" = hello ]; }
check "GET / over IPv4" hello "$V4"
check "GET / over IPv6" hello "[$V6]"

# same HOST BYTES [CURL-OPTION...]: a body of random bytes comes back as it was sent
same() {
	local host=$1 len=$2
	shift 2
	head -c "$len" /dev/urandom >"$D/body"
	rm -f "$D/reply"
	cl curl -sS -g -f --max-time 60 -o "$D/reply" --data-binary "@$D/body" "$@" "http://$host:8080/echo" &&
		cmp "$D/body" "$D/reply"
}
for len in 1 1447 1448 1449 4096 65535 102400 1048577 8388608; do
	check "POST /echo of $len bytes, IPv4" same "$V4" $len
done
for len in 1 102400 8388608; do
	check "POST /echo of $len bytes, IPv6" same "[$V6]" $len
	check "POST /echo of $len bytes in chunks" same "$V4" $len -H "Transfer-Encoding: chunked"
	check "POST /echo of $len bytes without 100-continue" same "$V4" $len -H "Expect:"
done
check "POST /echo, HTTP/1.0" same "$V4" 3000 --http1.0

check_py "an empty body, HEAD, and the path behind the prefix" <<'EOF'
from raw import *
r = post("/echo", b"")
expect("empty", (r.status, r.body), (200, b""))
r = ask(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", head_only=True)
expect("HEAD", (r.status, r.headers["content-length"]), (200, "6"))
expect("GET /echo/a/b?c=d", get("/echo/a/b?c=d").body, b"GET /a/b?c=d\n")
expect("type", get("/").headers["content-type"], "text/plain")
EOF

check_py "many requests on one connection" <<'EOF'
from raw import *
c = Client()
for i in range(200):
    body = bytes([i]) * (i * 37 % 5000)
    c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    r = c.reply()
    expect(f"request {i}", (r.status, r.body), (200, body))
EOF

check_py "pipelined requests are answered in order" <<'EOF'
from raw import *
c = Client()
c.send(b"".join(b"GET /echo/%d HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in range(10)))
for i in range(10):
    expect("echo", c.reply().body, b"GET /%d\n" % i)
    expect("fixed", c.reply().body, b"hello\n")
EOF

check_py "a request that comes byte by byte" <<'EOF'
from raw import *
c = Client()
c.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for b in b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n":
    c.send(bytes([b]))
expect("body", c.reply().body, b"abcde")
EOF

check_py "POST /score finds the rows that a plain loop finds" "$D/matrix" <<'EOF'
import array, json, random
from raw import *
m = array.array("f", open(sys.argv[1], "rb").read())
rows = [m[i:i + 32] for i in range(0, len(m), 32)]
random.seed(1)
for _ in range(20):
    q = array.array("f", [random.uniform(-1, 1) for _ in range(32)])
    r = post("/score", q.tobytes())
    expect("status", r.status, 200)
    best = sorted(range(len(rows)), key=lambda i: -sum(a * b for a, b in zip(rows[i], q)))[:5]
    expect("ids", json.loads(r.body)["ids"], best)
EOF

wrk_clean() {
	cl wrk -t 2 -c "$WRK_CONNS" -d "${WRK_SECONDS}s" --timeout 10s "$@" >"$D/wrk"
	cat "$D/wrk"
	grep -q 'requests in' "$D/wrk" && ! grep -qE ' 0 requests in|Non-2xx|Socket errors' "$D/wrk"
}
check "wrk on a fixed reply, IPv4" wrk_clean "http://$V4:8080/"
check "wrk through the backends, IPv4" wrk_clean "http://$V4:8080/echo"
check "wrk through the backends, IPv6" wrk_clean "http://[$V6]:8080/echo"
both_backends() {
	admin /stats | python3 -c '
import json, sys
b = [x["replies"] for x in json.load(sys.stdin)["workers"][0]["backends"] if x["pool"] == "echo"]
print(b)
sys.exit(min(b) == 0)'
}
check "both backends have answered" both_backends

# The kernel's share.
python3 - "$D/kernel" <<'EOF'
import random, sys
random.seed(3)
open(sys.argv[1], "wb").write(random.randbytes(3 << 20))
EOF
gw python3 -m http.server 2222 --bind :: --directory "$D" >/dev/null 2>&1 &
pid_of[kernel]=$!
kernel_file() { cl curl -sS -g -f --max-time 20 -o "$D/reply" "http://$1:2222/kernel" && cmp "$D/kernel" "$D/reply"; }
within 30 cl nc -z "$V4" 2222
check "ping over IPv4" cl ping -q -c 3 -i 0.2 -W 2 "$V4"
check "ping over IPv6" cl ping -q -c 3 -i 0.2 -W 2 "$V6"
check "large pings, which come in fragments" cl ping -q -c 2 -i 0.2 -W 2 -s 20000 "$V4"
check "3 MiB from a TCP service of the kernel, IPv4" kernel_file "$V4"
check "3 MiB from a TCP service of the kernel, IPv6" kernel_file "[$V6]"
passes() { [ "$(metric 'sluice_rx_packets_total{interface="'"$GIF"'",verdict="pass_no_listener"')" -gt 0 ]; }
check "what the kernel got is counted" passes
no_answer() { ! cl nc -z -w 1 "$V4" 8081; }
check "a closed port stays closed" no_answer
finish
