#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A bad request gets its status, and ends at most its own connection.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
route "/get" { respond { status = 200 body = "got\n" } methods = {GET, HEAD} }
route "/both" { respond { status = 200 body = "fixed\n" } methods = {GET} }
route "/both" { pool = echo methods = {POST, PUT} }
route "/small" { pool = echo max_body = 10 }
limits { max_head = 4k max_target = 1k max_headers = 20 max_body = 1m }
EOF

check_py "ambiguous and malformed requests get 400 and are closed" <<'EOF'
from raw import *
bad = {
    "CL and TE": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two CLs": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "CL list": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 4\r\n\r\nabc",
    "CL sign": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc",
    "blank before colon": b"GET /get HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n",
    "obs-fold": b"GET /get HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "bare CR": b"GET /get HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n",
    "no host": b"GET /get HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /get HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "NUL": b"GET /get HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n",
    "chunk size": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "chunk end": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}
for name, data in bad.items():
    c = Client()
    c.send(data)
    r = c.reply()
    expect(name, r.status, 400)
    expect(name + ": closed", c.rest(), b"")
EOF

check_py "each limit and each unknown has its status" <<'EOF'
from raw import *
def status(name, data, wanted):
    expect(name, ask(data).status, wanted)
status("404", b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 404)
status("404 at a segment's border", b"GET /echoes HTTP/1.1\r\nHost: x\r\n\r\n", 404)
status("405", b"POST /get HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405)
status("413 by length", b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", 413)
status("413 by a length beyond 64 bits", b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", 413)
status("413 by the route", b"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n", 413)
status("413 in chunks", b"POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n", 413)
status("within the route", b"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789", 200)
status("414", b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414)
status("431 by bytes", b"GET /get HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 5000 + b"\r\n\r\n", 431)
status("431 by number", b"GET /get HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 30 + b"\r\n", 431)
status("501", b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501)
status("505", b"GET /get HTTP/2.7\r\nHost: x\r\n\r\n", 505)
allow = ask(b"DELETE /get HTTP/1.1\r\nHost: x\r\n\r\n").headers.get("allow", "")
expect("Allow", sorted(x.strip() for x in allow.split(",")), ["GET", "HEAD"])
EOF

check_py "routes of one prefix, told apart by method" <<'EOF'
from raw import *
expect("GET", ask(b"GET /both HTTP/1.1\r\nHost: x\r\n\r\n").body, b"fixed\n")
expect("POST", ask(b"POST /both HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello").body, b"hello")
expect("PUT", ask(b"PUT /both HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi").body, b"hi")
c = Client()
c.send(b"HEAD /both HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
head = c.rest()
expect("HEAD", (head[:15], head[-4:]), (b"HTTP/1.1 200 OK", b"\r\n\r\n"))
r = ask(b"DELETE /both HTTP/1.1\r\nHost: x\r\n\r\n")
expect("neither", (r.status, sorted(x.strip() for x in r.headers["allow"].split(","))), (405, ["GET", "HEAD", "POST", "PUT"]))
EOF

check_py "100-continue is asked for, and refused when the body would be" <<'EOF'
from raw import *
c = Client()
c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
expect("interim", c.reply().status, 100)
c.send(b"hello")
r = c.reply()
expect("final", (r.status, r.body), (200, b"hello"))
r = ask(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\nExpect: 100-continue\r\n\r\n")
expect("refused", r.status, 413)
EOF

sed -i 's/^limits {/& header_timeout = 1s body_timeout = 1s idle_timeout = 2s/' "$D/gw.conf"
check "a reload with short time-outs" gw "$SLUICE" reload -c "$D/gw.conf"
check_py "slow bodies end in 408, slow heads and idle connections in a close" <<'EOF'
from raw import *
c = Client()
c.send(b"GET /get HTTP/1.1\r\nHo")
expect("head", c.rest()[:12] in (b"", b"HTTP/1.1 408"), True)
c = Client()
c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
expect("body", c.reply().status, 408)
c = Client()
c.send(b"GET /get HTTP/1.1\r\nHost: x\r\n\r\n")
expect("reply", c.reply().status, 200)
expect("idle", c.rest(), b"")
EOF

counted() { [ "$(metric "sluice_$1")" -gt 0 ]; }
check "smuggling is counted" counted 'front_errors_total{worker="0",error="smuggling"}'
check "404s are counted" counted 'exchanges_total{worker="0",outcome="no_route"}'
check "405s are counted" counted 'exchanges_total{worker="0",outcome="method"}'
check "413s are counted" counted 'exchanges_total{worker="0",outcome="too_large"}'
finish
