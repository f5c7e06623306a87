#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# CORS: preflight requests are answered without a key, and replies name the origins of the route only.
. "$(dirname "$0")/../lib.sh"

arena
cat >"$D/server.py" <<'PY'
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        for k, v in (("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Credentials", "true"), ("Vary", "Accept"), ("Content-Length", "2")):
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(b"ok")
    do_OPTIONS = do_POST
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()
PY
gw /usr/bin/python3 "$D/server.py" >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 gw bash -c 'exec 3<>/dev/tcp/127.0.0.1/8000' 2>/dev/null || say_failed "the server does not start"
echo "alice $(printf secret | sha256sum | cut -d' ' -f1)" >"$D/keys"
chgrp "$(id -g "$RUN_AS")" "$D/keys"
chmod 640 "$D/keys"
gateway <<EOC
interface $GIF { }
listener web { address = "$V4" port = 8080 }
pool app { backend a { endpoint = "http://127.0.0.1:8000" } }
keys clients { file = "$D/keys" }
route "/v1" { pool = app  methods = {POST}  keys = clients
	cors { origins = {"https://app.test", "http://localhost:3000"} methods = {POST, PUT} headers = {authorization, content-type}
		expose = {retry-after} max_age = 5m credentials = yes } }
route "/v1" { pool = app  methods = {GET} }
route "/any" { pool = app  cors { origins = {"*"} } }
route "/none" { pool = app }
EOC
has() { grep -qixF "$1" "$D/said" || { cat "$D/said"; echo "missing: $1"; return 1; }; }
has_no() { ! grep -qi "$1" "$D/said" || { cat "$D/said"; return 1; }; }
status() { grep -q "^HTTP/[12.]* $1" "$D/said" || { cat "$D/said"; return 1; }; }
ask() { cl curl -sS -i --max-time 10 "$HOW" "$@" 2>/dev/null | tr -d '\r' >"$D/said"; }
preflight() { ask -X OPTIONS -H "Origin: $2" -H "Access-Control-Request-Method: $3" -H 'Access-Control-Request-Headers: authorization' "http://$V4:8080$1"; }
for HOW in --http1.1 --http2-prior-knowledge; do
	preflight /v1/chat https://app.test POST
	check "$HOW: preflight" eval 'status 204 && has "access-control-allow-origin: https://app.test" && has "access-control-allow-credentials: true" && has "vary: Origin"'
	check "$HOW: what is allowed" eval 'has "access-control-allow-methods: POST, PUT" && has "access-control-allow-headers: authorization, content-type" && has "access-control-max-age: 300" && has_no ^content-length'
	for origin in https://evil.test https://app.test.evil https://app.test:443 http://app.test null HTTPS://APP.TEST; do
		preflight /v1/chat $origin POST
		check "$HOW: preflight of $origin" eval 'status 204 && has "vary: Origin" && has_no access-control'
	done
	preflight /v1/chat http://localhost:3000 GET
	check "$HOW: a route of this method without cors" eval 'status 405 && has_no access-control-allow-methods'
	ask -d x -H 'Origin: http://localhost:3000' -H 'Authorization: Bearer secret' "http://$V4:8080/v1/chat"
	check "$HOW: a reply" eval 'status 200 && has "access-control-allow-origin: http://localhost:3000" && has "access-control-expose-headers: retry-after" && has "vary: Accept" && has "vary: Origin" && [ "$(grep -ci access-control-allow-origin "$D/said")" = 1 ]'
	ask -d x -H 'Origin: https://evil.test' -H 'Authorization: Bearer secret' "http://$V4:8080/v1/chat"
	check "$HOW: fields of the backend do not allow more" eval 'status 200 && has "vary: Origin" && has_no access-control'
	ask -d x -H 'Authorization: Bearer secret' "http://$V4:8080/v1/chat"
	check "$HOW: a reply without an origin" eval 'status 200 && has "vary: Origin" && has_no access-control'
	ask -d x -H 'Origin: https://app.test' "http://$V4:8080/v1/chat"
	check "$HOW: an error can be read" eval 'status 401 && has "access-control-allow-origin: https://app.test"'
	preflight /any https://other.test POST
	check "$HOW: any origin" eval 'status 204 && has "access-control-allow-origin: *" && has_no allow-credentials && has_no ^vary'
	ask -d x -H 'Origin: null' "http://$V4:8080/any"
	check "$HOW: never with credentials" eval 'status 200 && has "access-control-allow-origin: *" && has_no allow-credentials'
	ask -X OPTIONS -H 'Origin: https://app.test' -d x "http://$V4:8080/any"
	check "$HOW: OPTIONS that is no preflight" eval 'status 200 && has ok'
	preflight /none https://app.test POST
	check "$HOW: a route without cors: the backend answers" eval 'status 200 && has ok && has "access-control-allow-origin: *"'
done
check "they are outcomes" eval 'admin /metrics | awk "/^sluice_exchanges_total.*\"preflight\"/ { n += \$NF } END { exit n != 16 }"'
bad() { sed "$1" "$D/gw.conf" >"$D/bad.conf"; ! gw "$SLUICE" check -c "$D/bad.conf" 2>"$D/mistake" && grep -q "bad.conf:$2" "$D/mistake"; }
check "mistakes are named" eval 'bad "s/\"https:..app.test\", \"http:..localhost:3000\"/\"*\"/" "6: found credentials with origins = {\"\*\"}; allowed: names of origins" && bad "s,https://app.test,https://App.test/," "6: found origins = \"https://App.test/\"; allowed: " && bad "s/origins = {\"\*\"}/max_age = 1s/" "9: found cors without origins"'
finish
