#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Servers of others, unchanged, as backends: endpoint = "http://...". nginx, Apache, Python, Node, gunicorn, uvicorn: what a
# client gets through the gateway is what the server gives by itself.
. "$(dirname "$0")/../lib.sh"

arena
. "$here/agent/servers_of_others.bash"

gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
$(server_pools)
agents { count = 2 }
CONF

for s in nginx apache python; do
	check_py "$s: files of any size, HEAD, ranges, redirects, 304, 404" $s <<'PY'
from raw import *
import os, sys
s = sys.argv[1]
www = os.path.dirname(os.path.abspath(__file__)) + "/www/"
for name in ("empty", "small", "large"):
    want = open(www + name, "rb").read()
    r = get(f"/{s}/{name}")
    expect(name, (r.status, r.headers["content-length"], r.body == want), (200, str(len(want)), True))
    h = ask(f"HEAD /{s}/{name} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), head_only=True)
    # Apache leaves a length of 0 out.
    length = h.headers.get("content-length", None if want else "0")
    expect("HEAD", (h.status, length), (200, str(len(want))))
    m = get(f"/{s}/{name}", headers=f"If-Modified-Since: {r.headers['last-modified']}\r\n")
    expect("not modified", (m.status, m.body), (304, b""))
if s != "python":
    r = get(f"/{s}/large", headers="Range: bytes=1000-1999\r\n")
    expect("range", (r.status, r.headers["content-range"], r.body), (206, "bytes 1000-1999/3000000", want[1000:2000]))
r = get(f"/{s}/sub")
expect("redirect", (r.status, f"/{s}/sub/" in r.headers["location"]), (301, True))
expect("404", get(f"/{s}/none").status, 404)
c = Client()
for _ in range(50):
    c.send(f"GET /{s}/small HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    expect("kept", c.reply().body, open(www + "small", "rb").read())
PY
done
# The same cases of all that have them; those of files are of a file in nginx and Apache.
for s in nginx apache node gunicorn uvicorn; do
	check_py "$s: HEAD, 204, 304, a range, a redirect, cookies" $s <<'PY'
from raw import *
import os, sys
s = sys.argv[1]
files = s in ("nginx", "apache")
large = open(os.path.dirname(os.path.abspath(__file__)) + "/www/large", "rb").read() if files else bytes(range(256)) * 256
def path(name):
    return f"/{s}/" + ({"fresh": "small", "range": "large"}.get(name, name) if files else name)
def head(name, fields=""):
    """Lines of the head of a GET, as they came."""
    c = Client()
    c.send(f"GET {path(name)} HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode())
    while b"\r\n\r\n" not in c.buf:
        c._more()
    return c.buf.split(b"\r\n\r\n")[0].decode().split("\r\n")
r = get(path("no-content"))
expect("204", (r.status, r.headers.get("content-length"), r.headers.get("transfer-encoding"), r.headers["x-a"]), (204, None, None, "b"))
fresh = get(path("fresh"))
expect("200", (fresh.status, "etag" in fresh.headers, int(fresh.headers["content-length"])), (200, True, len(fresh.body)))
h = ask(f"HEAD {path('fresh')} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), head_only=True)
expect("HEAD", (h.status, h.headers["content-length"], h.headers["etag"]), (200, str(len(fresh.body)), fresh.headers["etag"]))
r = get(path("fresh"), headers=f"If-None-Match: {fresh.headers['etag']}\r\n")
expect("304", (r.status, r.headers["etag"], r.body), (304, fresh.headers["etag"], b""))
r = get(path("range"), headers="Range: bytes=1000-1999\r\n")
expect("range", (r.status, r.headers["content-range"], r.body), (206, f"bytes 1000-1999/{len(large)}", large[1000:2000]))
r = get(path("moved"))
expect("redirect", (r.status, r.headers["location"].removeprefix("http://x")), (302, "/elsewhere?y=%20"))
expect("cookies", [l.split(": ", 1)[1] for l in head("cookies") if l.lower().startswith("set-cookie:")], ["a=1; Path=/", "b=2; HttpOnly"])
PY
done
# Connections that a server in the namespace has accepted, all of them together.
accepted() { gw awk '$1 == "Tcp:" { if (n++) print $7 }' /proc/net/snmp; }
# kept SERVER PATH: a hundred requests by connections of which each agent has one
kept() {
	local before new
	before=$(accepted)
	cl curl -sS "http://$V4:8080/$1/$2?#[1-100]" -o /dev/null -w '%{http_code}\n' | sort | uniq -c
	new=$(($(accepted) - before))
	echo "$new connections"
	[ "$new" -le 2 ]
}
for s in nginx apache; do check "$s: connections are kept" kept $s small; done
for s in node gunicorn uvicorn; do check "$s: connections are kept" kept $s fresh; done
for s in node gunicorn uvicorn; do
	check_py "$s: bodies both ways, parts, cookies, host and query" $s <<'PY'
from raw import *
import hashlib, os, sys
s = sys.argv[1]
for n in (0, 1, 70000, 3000000):
    body = os.urandom(n)
    r = post(f"/{s}/sum?a=%2f&b", body)
    expect(f"sum of {n}", (r.status, r.body.decode()), (200, hashlib.sha256(body).hexdigest() + " x a=%2f&b"))
r = get(f"/{s}/parts")
expect("parts", (r.status, r.body), (200, b"".join(b"part %d\n" % i for i in range(1000))))
h = ask(f"HEAD /{s}/parts HTTP/1.1\r\nHost: x\r\n\r\n".encode(), head_only=True)
expect("HEAD", h.status, 200)
PY
	cookies() { [ "$(cl curl -sSi "http://$V4:8080/$s/parts" | grep -ci '^set-cookie: [ab]=')" = 2 ]; }
	check "$s: both cookies" cookies
done

finish
