#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pools that a member of the body selects (match_body): read whole and as a stream, for programs of the SDK and for
# unmodified servers, by HTTP/1.1 and HTTP/2.
. "$(dirname "$0")/../lib.sh"

arena
curl_never_blocks
for b in llama other; do
	backend $b echo
done
for p in 8000 8001; do
	gw /usr/bin/python3 "$here/agent/server.py" 127.0.0.1:$p >"$D/server-$p.log" 2>&1 &
	pid_of[server-$p]=$!
	within 30 grep -qs listening "$D/server-$p.log" || say_failed "the server does not start"
done
route() { # route PREFIX MATCH-POOL KEY...
	local prefix=$1 llama=$2
	shift 2
	echo "route \"$prefix\" { match_body = \"model\" match \"llama*\" { pool = $llama } strip_prefix = yes $* }"
}
{
	cat <<EOC
interface $GIF { }
listener web { address = "$V4" port = 8080 }
pool llama { backend a { endpoint = "shm://$D/llama.sock" } }
pool other { backend a { endpoint = "shm://$D/other.sock" } }
pool llama-server { backend a { endpoint = "http://127.0.0.1:8000" } }
pool other-server { backend a { endpoint = "http://127.0.0.1:8001" } }
EOC
	route /whole llama "pool = other"
	route /stream llama "pool = other stream = yes"
	route /server llama-server "pool = other-server"
	route /server-stream llama-server "pool = other-server stream = yes"
	route /strict llama
	route /strict-server llama-server
	route /short llama "pool = other match_body_limit = 1k"
	route /short-pool llama "pool = other match_body_limit = 1k match_body_beyond = pool"
} | gateway_config
gateway_start

python3 - "$D" <<'PY'
import json, sys
def body(name, **members):
    with open(f"{sys.argv[1]}/{name}", "w") as f:
        json.dump(members, f, ensure_ascii=name == "escaped")
prompt = [{"role": "user", "content": "Zeile é \U0001f600 " * 16000}]
body("first", model="llama-3", messages=prompt)
body("last", messages=prompt, model="llama-3")
body("small", model="llama-3")
body("inner", messages=[{"model": "llama-3"}], model="gpt")
body("none", messages=prompt)
body("escaped", messages="\U0001f600", model="llama-é")
PY
sed -i 's/"model"/"m\\u006f\\u0064el"/' "$D/escaped"
size() { stat -c %s "$D/$1"; }
[ "$(size last)" -gt 200000 ] || say_failed "the prompt is short"

requests() { metric "sluice_stage_seconds_count{pool=\"$1\",stage=\"total\"}"; }
# answers POOL PATH BODY [CURL-OPTION...]: the request is that pool's, and comes back unchanged
answers() {
	local pool=$1 path=$2 body=$3 before
	shift 3
	before=$(requests "$pool")
	cl curl -sS --max-time 20 --data-binary "@$D/$body" "$@" "http://$V4:8080$path" >"$D/reply" &&
		cmp "$D/$body" "$D/reply" &&
		within 10 eval "[ \$(requests $pool) -eq $((before + 1)) ]"
}
for how in --http1.1 --http2-prior-knowledge; do
	for way in whole stream server server-stream; do
		kind=${way%-stream}
		[ "$kind" = server ] && kind=-server || kind=
		for body in first last small escaped; do
			check "$how $way: a body of $(size $body) bytes, $body" answers "llama$kind" "/$way/echo" $body $how
		done
		for body in inner none; do
			check "$how $way: $body" answers "other$kind" "/$way/echo" $body $how
		done
		# The servers do not read chunks.
		[ -n "$kind" ] || check "$how $way: chunked" answers "llama$kind" "/$way/echo" last $how -H 'Content-Length:' -H 'Transfer-Encoding: chunked'
	done
	status() { cl curl -sS --max-time 10 -o "$D/reply" -w '%{http_code}' $how "$@"; }
	for way in strict strict-server; do
		for body in inner none; do
			check "$how $way: $body gets 404" eval '[ "$(status --data-binary "@$D/$body" "http://$V4:8080/$way/echo")" = 404 ] && grep -q "unknown model" "$D/reply"'
		done
	done
	check "$how: no body, no model" eval '[ "$(status "http://$V4:8080/strict")" = 404 ]'
	check "$how: too far behind gets 413" eval '[ "$(status --data-binary "@$D/last" "http://$V4:8080/short")" = 413 ]'
	check "$how: or the pool of the route" answers other /short-pool last $how
	check "$how: within the limit" answers llama /short first $how
done
check "all are counted" eval '[ "$(metric sluice_bodies_matched_total)" = 38 ] && [ "$(metric sluice_bodies_unmatched_total)" = 26 ] && [ "$(metric sluice_bodies_beyond_total)" = 4 ]'

# A stream goes on as soon as its member has come, in segments of one byte.
check_py "the member is all that is awaited" <<'PY'
from raw import *
c = Client()
for b in b'POST /stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n':
    c.send(bytes([b]))
for b in b'{"a":[1,{"model":"x"}],"model":"llama"':
    c.send(b"1\r\n" + bytes([b]) + b"\r\n")
# Echoed before the request has ended.
while b'"llama"' not in bytes(c.buf).replace(b"\r\n", b"").replace(b"1", b""):
    c._more()
c.send(b"1\r\n}\r\n0\r\n\r\n")
while b"0\r\n\r\n" not in c.buf:
    c._more()
PY
finish
