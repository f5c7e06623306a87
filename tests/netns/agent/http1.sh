#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server that knows nothing of sluice as a backend, through `sluice agent`: what reaches it, what comes back, and
# what becomes of a server that breaks the rules.
# http1-stack.sh: the same through the worker's own TCP, with the server beyond its interface.
. "$(dirname "$0")/../lib.sh"

arena
AT=127.0.0.1:8000 TCP='' place=gw said=agent.log
if [ "${VIA:-agent}" = stack ]; then
	AT=10.99.0.2:8000 TCP='tcp { server_ports = "20000-29999" }' place=cl said=gw.log
fi
"$place" /usr/bin/python3 "$here/agent/server.py" "$AT" >"$D/server.log" 2>&1 &
pid_of[server]=$!
gw /usr/bin/python3 "$here/agent/server.py" "unix:$D/server.sock" >"$D/unix-server.log" 2>&1 &
pid_of[unix-server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
within 30 grep -qs listening "$D/unix-server.log" || say_failed "the server does not start"
in_group nsenter --net="/run/netns/$G" "$SLUICE" agent --listen "shm://$D/agent.sock" --to http://127.0.0.1:8000 \
	--listen "shm://$D/unix.sock" --to "http+unix://$D/server.sock" >"$D/agent.log" 2>&1 </dev/null &
pid_of[agent]=$!
within 30 test -S "$D/agent.sock" || say_failed "the agent does not start"
server="endpoint = \"http://$AT\""
[ -z "$TCP" ] || server="$server via = stack"
web=$server
[ -n "$TCP" ] || web="endpoint = \"shm://$D/agent.sock\""
gateway <<CONF
interface "$GIF" { }
$TCP
listener v4 { address = "$V4" port = 8080 }
limits { max_body = 64m address_frames = 1 }
memory { frames = 512m }
pool web { batch { policy = direct } backend a { $web } }
pool unix { batch { policy = direct } backend a { endpoint = "shm://$D/unix.sock" } }
route "/" { pool = web strip_prefix = no forward_headers = {"*"} }
route "/stream" { pool = web strip_prefix = yes stream = yes forward_headers = {"*"} }
route "/underscores" { pool = web strip_prefix = yes forward_headers = {"*"} underscores = pass }
pool own { backend a { $server } }
route "/own" { pool = own strip_prefix = yes }
route "/whole" { pool = own strip_prefix = yes stream = no }
pool least { max_body = 1m backend a { $server } }
route "/least" { pool = least strip_prefix = yes }
route "/unix" { pool = unix forward_headers = {"*"} }
CONF
[ -z "$TCP" ] || take_baseline # a reply has left the ring of the interface

check_py "what reaches the server: target, fields in order, whom they are for and from" <<'PY'
from raw import *
r = ask(b"GET /head?a=%20b&c HTTP/1.1\r\nHost: www.example:8080\r\nX-B: 1\r\nX-A: 2\r\nx-b: 3\r\n"
        b"Connection: x-hop, x-forwarded-for, forwarded, close\r\n"
        b"X-Hop: no\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Connection: x\r\nX-Forwarded-For: 192.0.2.9\r\n"
        b"X-Forwarded-Proto: https\r\nVia: 1.0 other\r\n\r\n")
lines = r.body.decode().split("\r\n")
expect("line", lines[0], "GET /head?a=%20b&c HTTP/1.1")
expect("host", lines[1], "host: www.example:8080")
expect("fields", lines[2:5], ["x-b: 1", "x-a: 2", "x-b: 3"])
expect("added", lines[5:10], ["x-forwarded-for: 10.99.0.2", "x-forwarded-proto: http",
    "x-forwarded-host: www.example:8080", 'forwarded: for=10.99.0.2;host="www.example:8080";proto=http', "via: 1.0 other, 1.1 sluice"])
expect("trace", lines[10].split("-")[0] + str(len(lines[10])), "traceparent: 0068")
expect("nothing else", lines[11:], ["", ""])
r = ask(b"GET /head? HTTP/1.1\r\nHost: a\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: x=y\r\n\r\n")
lines = r.body.decode().split("\r\n")
expect("empty query", lines[0], "GET /head? HTTP/1.1")
expect("state", "tracestate: x=y" in lines, True)
expect("trace goes on", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" in lines, True)
PY

check_py "without a word about streams a server gets bodies of any size, within max_body of its pool" <<'PY'
from raw import *
import hashlib
for n, path, status in ((65 << 20, "/own", 200), (65 << 20, "/whole", 413), (2 << 20, "/least", 413), (1 << 20, "/least", 200), (1000, "/own", 200)):
    c = Client(timeout=60)
    c.send(f"POST {path}/sum HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\n\r\n".encode())
    if status == 200:
        c.send(b"x" * n)
    r = c.reply()
    expect(path, (r.status, r.body.decode()) if status == 200 else r.status,
           (200, hashlib.sha256(b"x" * n).hexdigest()) if status == 200 else 413)
PY

check_py "fields that a server which follows CGI takes for others" <<'PY'
from raw import *
forged = b"sluice_client_subject: CN=admin\r\nX_Forwarded_For: 192.0.2.9\r\nsluice.client-san: DNS:admin\r\ncontent_length: 1\r\nx_user: a\r\nx-user: b\r\n"
for prefix, want in ((b"", ["x-user: b"]), (b"/stream", ["x-user: b"]), (b"/underscores", ["x_user: a", "x-user: b"])):
    r = ask(b"GET %s/head HTTP/1.1\r\nHost: www\r\n%s\r\n" % (prefix, forged))
    lines = r.body.decode().split("\r\n")
    expect("head", lines[2:2 + len(want)], want)
    expect("the gateway's own", lines[2 + len(want):][:2], ["x-forwarded-for: 10.99.0.2", "x-forwarded-proto: http"])
PY

check_py "bodies of any size, both ways" <<'PY'
from raw import *
import os, hashlib
for n in (0, 1, 1000, 16383, 65535, 65536, 65537, 1000000, 20000000):
    body = os.urandom(n)
    r = post("/sum", body)
    expect(f"sum of {n}", (r.status, r.body.decode()), (200, hashlib.sha256(body).hexdigest()))
    r = get(f"/bytes?{n}")
    expect(f"{n} bytes", (r.status, r.headers["content-length"], r.body), (200, str(n), (b"0123456789abcdef" * (n // 16 + 1))[:n]))
PY

check_py "HEAD, 204, 304, redirects, cookies, interim replies, chunks with trailers, HTTP/1.0" <<'PY'
from raw import *
r = ask(b"HEAD /bytes?777 HTTP/1.1\r\nHost: x\r\n\r\n", head_only=True)
expect("HEAD", (r.status, r.headers["content-length"]), (200, "777"))
r = get("/no-content")
expect("204", (r.status, r.headers.get("content-length"), r.headers["x-a"]), (204, None, "b"))
r = get("/not-modified")
expect("304", (r.status, r.headers["etag"], r.body), (304, '"x"', b""))
r = get("/redirect")
expect("302", (r.status, r.headers["location"]), (302, "http://elsewhere/x?y=%20"))
c = Client()
c.send(b"GET /cookies HTTP/1.1\r\nHost: x\r\n\r\n")
raw = b""
while b"\r\n\r\n" not in raw:
    raw += c.s.recv(1 << 16)
lines = [l.lower() for l in raw.split(b"\r\n")]
expect("cookies", [l for l in lines if l.startswith(b"set-cookie")], [b"set-cookie: a=1; path=/", b"set-cookie: b=2; httponly"])
expect("hop", [l for l in lines if l.startswith((b"x-hop", b"keep-alive", b"connection"))], [])
for path in ("/interim", "/stream/interim"):
    c = Client()
    c.send(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
    r = c.reply()
    expect("interim", (r.status, r.headers), (103, {"link": "</a>"}))
    r = c.reply()
    expect("final", (r.status, r.body), (200, b"final"))
    r = ask(b"GET %s HTTP/1.0\r\nHost: x\r\n\r\n" % path.encode())
    expect("HTTP/1.0 has no interim replies", (r.status, r.body), (200, b"final"))
r = get("/chunks")
expect("chunks", (r.status, r.body), (200, b"a" * 10 + b"b" * 70000 + b"c"))
r = get("/until-close")
expect("until close", (r.status, r.body), (200, b"z" * 100000))
PY

check_py "what real servers send: framing of 204 and 304, blanks in chunks, lengths twice, reasons, Server and Date" <<'PY'
from raw import *
for prefix in "", "/stream":
    for name in "204-chunked", "204-length", "304-chunked":
        r = get(prefix + "/odd/" + name)
        expect(name, (r.status, r.headers.get("content-length"), r.body), (int(name[:3]), None, b""))
    r = ask(b"HEAD %s/odd/head HTTP/1.1\r\nHost: x\r\n\r\n" % prefix.encode(), head_only=True)
    expect("HEAD", (r.status, r.headers.get("content-length"), r.headers["x-a"]), (200, None, "b"))
    expect("blanks", get(prefix + "/odd/blanks").body, b"hello!")
    expect("lengths", get(prefix + "/odd/lengths").body, b"hi")
    expect("no reason", get(prefix + "/odd/no-reason").body, b"hi")
    c = Client()
    c.send(b"GET %s/odd/reason HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % prefix.encode())
    lines = c.rest().decode().lower().split("\r\n")
    expect("reason", lines[0], "http/1.1 404 not here")
    expect("server", [l for l in lines if l.startswith("server")], ["server: odd/1"])
    expect("date", [l for l in lines if l.startswith("date")], ["date: thu, 01 jan 1970 00:00:00 gmt"])
PY
own() { [ "$(cl curl -sS -o /dev/null -D - --http2-prior-knowledge "http://$V4:8080/odd/reason" | tr -d '\r' | grep -cxE 'server: odd/1|date: Thu, 01 Jan 1970 00:00:00 GMT|(server|date): .*')" = 2 ]; }
check "over HTTP/2 Server and Date of the server stand once, too" own

large() { # NAME LENGTH: one field or many, and as long in all, to both kinds of clients
	for version in --http1.1 --http2-prior-knowledge; do
		[ "$(cl curl -sS -D - $version "http://$V4:8080/odd/$1" | grep -aE '^[aA]: ' | tr -d '\r\n' | wc -c)" = "$2" ] || return
	done
}
check "a head of 250 fields passes" large many-fields $((250 * 4))
check "one field of 65,000 bytes" large large-field 65003
check "130 fields of 480 bytes" large large-fields $((130 * 483))
named() { cl curl -sS -o /dev/null "http://$V4:8080/malformed/huge-head" && grep -q "more bytes than max_reply_head" "$D/$said"; }
check "the log names the limit of one that is larger" within 10 named

trailers() { cl nghttp -nv "http://$V4:8080/chunks" | grep -q 'x-sum: 70011'; }
check "trailers reach a client that has a place for them" trailers
check_py "and one of HTTP/1.1 that asks for them" <<'PY'
from raw import *
for te, end in (b"TE: trailers\r\n", b"\r\n0\r\nx-sum: 70011\r\n\r\n"), (b"", b"\r\n0\r\n\r\n"):
    c = Client()
    c.send(b"GET /chunks HTTP/1.1\r\nHost: x\r\n" + te + b"Connection: close\r\n\r\n")
    expect(te, c.rest().endswith(end), True)
PY
hints() { [ "$(cl curl -sSv --http2-prior-knowledge "http://$V4:8080/interim" 2>&1 | grep -aE '^< (HTTP/2 103|link: </a>)|final' | tr -d '\r\n')" = "< HTTP/2 103 < link: </a>final" ]; }
check "early hints reach a client of HTTP/2" hints
h2() { [ "$(cl curl -sS --http2-prior-knowledge -o "$D/reply" -w '%{http_version} %{size_download}' "http://$V4:8080/bytes?300000")" = "2 300000" ]; }
check "a client of HTTP/2" h2
check "a Unix socket" [ "$(cl curl -sS "http://$V4:8080/unix/bytes?5")" = 01234 ]

cl ip addr add 10.99.0.3/24 dev "$CIF"
check_py "one client's slow requests leave places for another" <<'PY'
from raw import *
def other(path):
    s = socket.create_connection((V4, 8080), timeout=15, source_address=("10.99.0.3", 0))
    s.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path)
    got = b""
    while data := s.recv(1 << 16):
        got += data
    return got
slow = [Client() for _ in range(60)]
for c in slow:
    c.send(b"GET /wait/fair HTTP/1.1\r\nHost: x\r\n\r\n")
# The learnt number of places is 32 in the beginning, and the server answers none of these.
expect("all places are taken", eventually(20, lambda: int(other(b"/count?/wait/fair").split(b"\r\n\r\n")[1]) >= 16), True)
for _ in range(20):
    expect("beside", other(b"/head").startswith(b"HTTP/1.1 200 OK\r\n"), True)
for c in slow:
    c.s.close()
PY

check_py "connections are kept, and not those that must not be" <<'PY'
from raw import *
seen = {get("/bytes?1").headers["x-conn"] for _ in range(20)}
expect("connections for 20 requests", len(seen), 1)
a = get("/close").headers["x-conn"]
b = get("/bytes?1").headers["x-conn"]
expect("closed", a != b, True)
import time
for how in ("/excess?together", "/excess"):
    expect(how, get(how).body, b"one")
    time.sleep(0 if "together" in how else 0.5)
    for _ in range(5):
        expect("behind " + how, get("/bytes?3").body, b"012")
PY

check_py "what is malformed is a 502 and goes no further; what breaks off never looks whole" <<'PY'
from raw import *
for name in ("both", "lengths", "status", "garbage", "bare-lf", "nul", "fold", "switching", "chunk-size", "coding",
             "huge-head", "many-fields", "cut-head"):
    r = get("/malformed/" + name)
    expect(name, (r.status, b"hi" in r.body), (502, False))
for name in ("cut-length", "cut-chunks", "cut-chunk", "cut-end"):
    c = Client()
    c.send(b"GET /broken/%s HTTP/1.1\r\nHost: x\r\n\r\n" % name.encode())
    try:
        r = c.reply()
        expect(name, r.status, 502)
    except EOFError:
        pass
PY

check_py "at most once: a request that was lost is repeated only if it is idempotent" <<'PY'
from raw import *
expect("GET", get("/vanish/get").body, b"again")
expect("GETs seen", get("/count?/vanish/get").body, b"2")
r = post("/vanish/post", b"x")
expect("POST", r.status, 502)
expect("POSTs seen", get("/count?/vanish/post").body, b"1")
for i in range(30):
    expect("kept connection that closes, GET", get("/idle-close").status, 200)
    expect("the next one", get("/bytes?3").body, b"012")
PY

check_py "a POST that meets a kept connection which the server has closed meanwhile is not lost, and goes once" <<'PY'
from raw import *
before = int(get("/count?/echo").body)
c = Client()
for i in range(30):
    c.send(b"GET /idle-close HTTP/1.1\r\nHost: x\r\n\r\n")
    expect("the last on its connection", c.reply().body, b"kept?")
    time.sleep((i % 3) * 0.01)  # at once, and when the server has closed for a while
    c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n%03d" % i)
    r = c.reply()
    expect(f"POST {i}", (r.status, r.body), (200, b"%03d" % i))
expect("seen", int(get("/count?/echo").body) - before, 30)
PY

check_py "a server that answers before it has read, and then closes: its answer comes through" <<'PY'
from raw import *
for path in ("/early", "/stream/early"):
    for n in (10, 70000, 3000000):
        c = Client()
        c.send(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), n))
        try:
            c.send(b"y" * n)
        except OSError:  # a stream's answer comes while it is sent
            pass
        r = c.reply()
        expect(f"{path} of {n}", (r.status, r.body), (413, b"early"))
PY

check_py "a client that leaves: its connection closes at once, and who waits does not" <<'PY'
from raw import *
import socket, struct, time
c = Client()
c.send(b"GET /wait/a HTTP/1.1\r\nHost: x\r\n\r\n")
expect("arrived", eventually(20, lambda: get("/count?/wait/a").body == b"1"), True)
c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)) # an end of one half may be meant so
left = time.monotonic()
c.close()
expect("told", eventually(20, lambda: get("/gone?/wait/a").body != b""), True)
print("noticed after %.1f ms" % ((float(get("/gone?/wait/a").body) - left) * 1e3))
PY

check_py "events come as they are sent" <<'PY'
from raw import *
c = Client()
c.send(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
for i in range(3):
    while b"data: %d" % i not in c.buf:
        c._more()
    expect("the server says the next one", get("/next-event").status, 200)
PY

check_py "many at a time share connections; 256 wait for a slow server" <<'PY'
from raw import *
import threading
bad = []
def one(i):
    for _ in range(4):
        r = get("/slow?0.05")
        if (r.status, r.body) != (200, b"slow"):
            bad.append(r)
threads = [threading.Thread(target=one, args=(i,)) for i in range(256)]
[t.start() for t in threads]
[t.join() for t in threads]
expect("bad", bad, [])
PY

finish
