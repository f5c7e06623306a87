#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# API keys: 401 without one, the key's name for backends and log, limits of each key, and another file by a reload.
. "$(dirname "$0")/../lib.sh"

arena
cat >"$D/server.py" <<'PY'
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = "".join(f"{k.lower()}: {v}\n" for k, v in self.headers.items()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Tokens-Used", "2")
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()
PY
gw /usr/bin/python3 "$D/server.py" >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 gw bash -c 'exec 3<>/dev/tcp/127.0.0.1/8000' 2>/dev/null || say_failed "the server does not start"
backend a echo
hash_of() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
cat >"$D/keys" <<EOF
# NAME HASH LIMITS
alice $(hash_of alice-secret-1)
bob $(hash_of bob-secret) rate=1/d burst=3
EOF
python3 -c '
import hashlib
for i in range(1, 10001):
    print(f"key{i}", hashlib.sha256(b"secret%d" % i).hexdigest())' >>"$D/keys"
chgrp "$(id -g "$RUN_AS")" "$D/keys"
chmod 640 "$D/keys"
mkdir "$D/log" && chown "$RUN_AS" "$D/log"
gateway <<EOC
interface $GIF { }
listener web { address = "$V4" port = 8080 }
access_log { file = "$D/log/access" }
pool app { backend a { endpoint = "http://127.0.0.1:8000" } }
pool echo { backend a { endpoint = "shm://$D/a.sock" } batch { max_latency = 10s } }
keys clients { file = "$D/keys" }
keys plain { file = "$D/keys" header = "x-api-key" forward = yes }
quota per-key { by = key  rate = 1/d  burst = 5 }
route "/app" { pool = app  keys = clients }
route "/plain" { pool = app  keys = plain }
route "/open" { pool = app }
route "/limited" { pool = echo  keys = clients  quotas = {per-key} }
route "/fixed" { keys = clients  respond { body = "inside" } }
quota tokens { by = key  rate = 1/d  burst = 6  usage_header = "x-tokens-used" }
route "/mirrored" { pool = app  keys = clients  quotas = {tokens}  mirror { pool = app  percent = 100 } }
route "/grpc.Echo/" { pool = echo  keys = clients }
EOC
post() { cl curl -sS -i --max-time 10 "$HOW" -d x "$@" 2>&1 | tr -d '\r' >"$D/said"; }
has() { grep -qixF "$1" "$D/said" || { cat "$D/said"; echo "missing: $1"; return 1; }; }
has_no() { ! grep -qi "$1" "$D/said" || { cat "$D/said"; return 1; }; }
status() { grep -q "^HTTP/[12.]* $1" "$D/said" || { cat "$D/said"; return 1; }; }
URL=http://$V4:8080
for HOW in --http1.1 --http2-prior-knowledge; do
	post "$URL/app"
	check "$HOW: no key" eval 'status 401 && has "www-authenticate: Bearer realm=\"clients\"" && has "API key required"'
	post "$URL/app" -H 'Authorization: Bearer alice-secret-2'
	check "$HOW: an unknown key" eval 'status 401 && has "www-authenticate: Bearer realm=\"clients\", error=\"invalid_token\""'
	for wrong in 'Basic alice-secret-1' 'alice-secret-1' 'Bearer' 'Bearer alice-secret-1x'; do
		post "$URL/app" -H "Authorization: $wrong"
		check "$HOW: '$wrong'" status 401
	done
	post "$URL/app" -H 'Authorization: Bearer alice-secret-1' -H 'Authorization: Bearer alice-secret-1'
	check "$HOW: two keys" status 401
	post "$URL/app" -H 'authorization: bearer alice-secret-1' -H 'Sluice-Client-Key: bob' -H 'sluice_client_key: bob' -H 'X-Other: 1'
	check "$HOW: a key: its name is sent, the key is not, and no client sets the name" \
		eval 'status 200 && has "sluice-client-key: alice" && [ "$(grep -ci client.key "$D/said")" = 1 ] && has_no ^authorization && has_no secret && has "x-other: 1"'
	post "$URL/plain" -H 'X-API-Key: secret9999' -H 'Authorization: Bearer others'
	check "$HOW: another header, passed on" eval 'status 200 && has "sluice-client-key: key9999" && has "x-api-key: secret9999" && has "authorization: Bearer others"'
	post "$URL/plain" -H 'X-API-Key: secret10001'
	check "$HOW: its challenge" eval 'status 401 && has "www-authenticate: ApiKey realm=\"plain\""'
	post "$URL/open" -H 'Authorization: Bearer others' -H 'Sluice-Client-Key: bob'
	check "$HOW: a route without keys" eval 'status 200 && has "authorization: Bearer others" && has_no client.key'
	post "$URL/fixed"
	check "$HOW: a fixed reply needs a key, too" status 401
	post "$URL/fixed" -H 'Authorization: Bearer bob-secret'
	check "$HOW: and has it" eval 'status 200 && has inside'
done
HOW=--http1.1
for n in 1 2 3; do
	post "$URL/mirrored" -H 'Authorization: Bearer alice-secret-1'
	check "request $n is charged" status 200
done
check "mirrored requests are answered" within 10 eval '[ "$(metric sluice_mirrored_total)" -eq 3 ]'
check "and not charged" eval '[ "$(metric "sluice_quota_charged_tokens_total{quota=\"tokens\"")" -eq 6 ]'
post "$URL/mirrored" -H 'Authorization: Bearer alice-secret-1'
check "the tokens of the key are used" status 429
printf '\0\0\0\0\0' >"$D/empty"
cl curl -sS -i --http2-prior-knowledge --max-time 10 -H 'content-type: application/grpc' -H 'te: trailers' --data-binary "@$D/empty" "$URL/grpc.Echo/Call" 2>/dev/null | tr -d '\r' >"$D/said"
check "gRPC: UNAUTHENTICATED" has "grpc-status: 16"
check_py "10,000 keys, one of them greedy: each has its own bucket, and a key's own limits replace those of the quota" <<'EOF'
from raw import *
c = Client(V4)
def ask(key):
    c.send(b"POST /limited HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1\r\n\r\nx" % key)
    return c.reply().status == 200
greedy = others = 0
for i in range(2, 10001, 2):
    greedy += ask(b"secret1")
    others += ask(b"secret%d" % i)
expect("greedy", greedy, 5)
expect("others", others, 5000)
expect("again", [ask(b"secret2") for _ in range(5)], [True] * 4 + [False])
expect("bob", [ask(b"bob-secret") for _ in range(4)], [True] * 3 + [False])
EOF
missing=$(metric 'sluice_api_keys_missing_total') unknown=$(metric 'sluice_api_keys_unknown_total')
check "refusals are counted" eval "echo $missing $unknown; [ $missing -ge 5 ] && [ $unknown -ge 10 ]"
check "the log names the key" within 10 grep -qE '"path": "/app", "key": "alice", .*"status": 200,' "$D/log/access"
check "and no secret" eval '! grep -q "secret" "$D/log/access"'
long=$(head -c 400 /dev/zero | tr '\0' a)
HOW=--http1.1 post "$URL/app?long" -A "$long" -e "http://$long" -H 'Host: long.test' -H 'Authorization: Bearer bob-secret'
check "long texts of a client leave room for it" within 10 eval 'grep "long.test" "$D/log/access" | grep -q "\"key\": \"bob\""'
in_memory() { # in_memory PID: the hash, as bytes, in memory that can be written
	python3 - "$1" "$(hash_of bob-secret)" <<'PY'
import sys
pid, want = sys.argv[1], bytes.fromhex(sys.argv[2])
with open(f"/proc/{pid}/mem", "rb", 0) as mem:
    for line in open(f"/proc/{pid}/maps"):
        span, mode, *_ = line.split()
        low, high = (int(x, 16) for x in span.split("-"))
        if mode[:2] != "rw" or high - low > 1 << 28:
            continue
        try:
            mem.seek(low)
            if want in mem.read(high - low):
                sys.exit(0)
        except OSError:
            pass
sys.exit(1)
PY
}
check "the gateway has the hashes in memory" in_memory "$(gateway_child | head -n1)"
others() { pgrep -P "$gateway_pid,$(gateway_child | paste -sd,)" | grep -vx "$(gateway_child | head -n1)"; }
none_of_others() {
	local p n=0
	for p in $gateway_pid $(pgrep -g "$(ps -o pgid= -p "$gateway_pid" | tr -d ' ')" -f "$D/gw.conf") $(others); do
		[ "$p" != "$(gateway_child | head -n1)" ] || continue
		n=$((n + 1))
		! in_memory "$p" || { ps -o pid,args -p "$p"; return 1; }
	done
	[ "$n" -ge 2 ]
}
check "its supervisor, guard and agents have not" none_of_others
printf 'alice %s\nalice %s\n' "$(hash_of alice-secret-2)" "$(hash_of alice-secret-1)" >"$D/keys"
check "reload" gw "$SLUICE" reload
HOW=--http1.1
post "$URL/app" -H 'Authorization: Bearer alice-secret-2'
check "a new key of an old name" eval 'status 200 && has "sluice-client-key: alice"'
post "$URL/app" -H 'Authorization: Bearer bob-secret'
check "a key that was removed" status 401
printf 'alice %s\nbob bob-secret\n' "$(hash_of alice-secret-2)" >"$D/keys"
check "a reload names a mistake in the file" eval '! gw "$SLUICE" reload 2>&1 | tee "$D/mistake" | grep -q "in force" && grep -q "$D/keys:2: found key \"bob\" with an invalid hash" "$D/mistake"'
chmod 644 "$D/keys"
check "and a file that others can read" eval '! gw "$SLUICE" check -c "$D/gw.conf" 2>"$D/mistake" && grep -q "that other accounts can read; allowed: chmod 640" "$D/mistake"'
post "$URL/app" -H 'Authorization: Bearer alice-secret-1'
check "the keys in force stay" status 200
finish
