#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The host in requests to a server: the one that the client names, or that of `host` (`--host` of an agent started by
# hand), over HTTP/1.1 and HTTP/2. And HTTP/2 over a Unix socket.
. "$(dirname "$0")/../lib.sh"

arena
chmod 777 "$D"
gw /usr/bin/python3 "$here/agent/server.py" 127.0.0.1:8000 >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
for at in 8001 "$D/h2.sock"; do
	name=h2-$(basename "$at")
	gw node "$here/agent/h2_server.js" "$at" >"$D/$name.log" 2>&1 </dev/null &
	pid_of[$name]=$!
	within 30 grep -qs listening "$D/$name.log" || { cp "$D/$name.log" "$D/out"; say_failed "$name does not start"; }
done
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
in_group nsenter --net="/run/netns/$G" "$SLUICE" agent --listen "shm://$D/kept.sock" --to http://127.0.0.1:8000 \
	--listen "shm://$D/named.sock" --to http://127.0.0.1:8000 --host by-hand.example:81 \
	--listen "shm://$D/h2named.sock" --to h2c://127.0.0.1:8001 --host two.example >"$D/agent.log" 2>&1 </dev/null &
pid_of[agent]=$!
within 30 test -S "$D/h2named.sock" || { cp "$D/agent.log" "$D/out"; say_failed "the agent does not start"; }
config() {
	cat <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
limits { address_frames = 1 max_body = 16m }
memory { frames = 256m }
pool kept { batch { policy = direct } backend a { endpoint = "shm://$D/kept.sock" } }
pool named { batch { policy = direct } backend a { endpoint = "shm://$D/named.sock" } }
pool h2named { batch { policy = direct } backend a { endpoint = "shm://$D/h2named.sock" } }
pool key { backend a { endpoint = "http://127.0.0.1:8000" host = "$1" } }
pool h2 { backend a { endpoint = "h2c://127.0.0.1:8001" } }
pool h2key { backend a { endpoint = "h2c://127.0.0.1:8001" host = "[fd00::7]:82" } }
pool unix { backend a { endpoint = "h2c+unix://$D/h2.sock" } }
route "/kept" { pool = kept forward_headers = {"*"} }
route "/named" { pool = named forward_headers = {"*"} }
route "/h2named" { pool = h2named forward_headers = {"*"} }
route "/key" { pool = key strip_prefix = yes }
route "/h2" { pool = h2 strip_prefix = yes }
route "/h2key" { pool = h2key strip_prefix = yes }
route "/unix" { pool = unix strip_prefix = yes }
CONF
}
config key.example | gateway_config
gateway_start

check_py "the client's host is kept, or the one that is set stands there, once" <<'PY'
from raw import *
for path, want in (("/kept", "www.example:8080"), ("/named", "by-hand.example:81"), ("/key", "key.example")):
    r = ask(f"GET {path}/head HTTP/1.1\r\nHost: www.example:8080\r\nX-A: b\r\n\r\n".encode())
    lines = r.body.decode().split("\r\n")
    expect(path, [l for l in lines if l.startswith("host:")], ["host: " + want])
    expect("what the client has asked for", "x-forwarded-host: www.example:8080" in lines, True)
for path, want in (("/h2", "www.example:8080"), ("/h2named", "two.example"), ("/h2key", "[fd00::7]:82"), ("/unix", "www.example:8080")):
    r = ask(f"GET {path}/head HTTP/1.1\r\nHost: www.example:8080\r\n\r\n".encode())
    lines = r.body.decode().split("\n")
    expect(path, [l for l in lines if l.startswith((":authority", "host:"))], [":authority: " + want])
PY
h2() { cl curl -sS --http2-prior-knowledge "http://$V4:8080/$1/head" | grep -aE '^(host|:authority): '; }
check "so it is for clients of HTTP/2" [ "$(h2 kept | tr -d '\r') $(h2 key | tr -d '\r') $(h2 h2key)" = "host: $V4:8080 host: key.example :authority: [fd00::7]:82" ]

check_py "HTTP/2 over a Unix socket: bodies both ways, many at a time" <<'PY'
from raw import *
import hashlib, os, threading
for n in (0, 1, 65536, 5000000):
    body = os.urandom(n)
    r = post("/unix/sum", body)
    expect(f"sum of {n}", (r.status, r.body.decode()), (200, hashlib.sha256(body).hexdigest()))
    r = get(f"/unix/bytes?{n}")
    expect(f"{n} bytes", (r.status, r.body), (200, (b"0123456789abcdef" * (n // 16 + 1))[:n]))
bad = []
def one(i):
    for _ in range(5):
        r = get(f"/unix/bytes?{i}")
        if (r.status, len(r.body)) != (200, i):
            bad.append(r)
threads = [threading.Thread(target=one, args=(1000 + i,)) for i in range(50)]
[t.start() for t in threads]
[t.join() for t in threads]
expect("bad", bad, [])
PY

config other.example:1 | gateway_config
gw "$SLUICE" reload -c "$D/gw.conf" >"$D/out" 2>&1 || say_failed "reload"
other() { cl curl -sS "http://$V4:8080/key/head" | grep -qx $'host: other.example:1\r'; }
check "a reload changes it" within 30 other
usage() { "$SLUICE" agent --host a --listen "shm://$D/x.sock" --to http://127.0.0.1:8000 2>&1 | grep -q 'found a; see --help'; }
check "--host wants its --to before it" usage
wrong() { timeout 10 "$SLUICE" agent --listen "shm://$D/x.sock" --to http://127.0.0.1:8000 --host 'a b' 2>&1 | grep -q 'found host "a b"; allowed: NAME, NAME:PORT'; }
check "a host that is none is an error" wrong
finish
