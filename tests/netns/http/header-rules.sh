#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Header rules of routes: what is set, dropped and rewritten in requests and replies.
. "$(dirname "$0")/../lib.sh"

arena
cat >"$D/server.py" <<'PY'
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "secret/1", ""
    def answer(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = "".join(f"{k}: {v}\n" for k, v in self.headers.items() if not k.startswith(("x-forwarded", "traceparent"))).encode()
        self.send_response(200)
        for k, v in (("Location", "http://dav.test/x"), ("Location2", "http://dav.test/x"), ("X-Powered-By", "a"), ("X-Powered-By", "b"),
                     ("X-Kept", "yes"), ("Content-Length", str(len(body)))):
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = do_MOVE = answer
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()
PY
gw /usr/bin/python3 "$D/server.py" >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 gw bash -c 'exec 3<>/dev/tcp/127.0.0.1/8000' 2>/dev/null || say_failed "the server does not start"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=dav.test -keyout "$D/a.key" -out "$D/a.pem" 2>/dev/null
chown "$RUN_AS" "$D/a.key" && chmod 600 "$D/a.key"
gateway <<EOC
interface $GIF { }
listener web { address = "$V4" port = 8080 }
listener safe { address = "$V4" port = 8443 tls { certificate = "$D/a.pem" key = "$D/a.key" } }
pool app { backend a { endpoint = "http://127.0.0.1:8000" } }
route "/" { pool = app
	set_header = {"x-key: secret", "X-Where: {scheme}://{host}{path} from {client}", "destination: {replace https:// http://}"}
	drop_header = {"x-debug", "cookie"}
	set_reply_header = {"strict-transport-security: max-age=1", "x-asked: {scheme}://{host}{path} by {client}", "x-kept: set", "location: {replace http:// https://}"}
	drop_reply_header = {"x-powered-by", "server"} }
route "/pass" { pool = app underscores = pass set_header = {"x-key: secret"} }
route "/fixed" { respond { status = 403 body = "no" } set_reply_header = {"x-asked: {path}", "x-frame-options: DENY"} }
EOC
# has WANT: a line of what curl said, whatever its case
has() { grep -qixF "$1" "$D/said" || { cat "$D/said"; echo "missing: $1"; return 1; }; }
has_no() { ! grep -qi "^$1:" "$D/said" || { cat "$D/said"; return 1; }; }
get() { cl curl -sSki --path-as-is --max-time 10 --resolve "dav.test:8443:$V4" --resolve "dav.test:8080:$V4" "$@" | tr -d '\r' >"$D/said"; }
for at in "--http1.1 http://dav.test:8080" "--http2-prior-knowledge http://dav.test:8080" "--http1.1 https://dav.test:8443" "--http2 https://dav.test:8443"; do
	how=${at% *} url=${at#* } scheme=${url%%:*}
	get "$how" -X MOVE -H 'Destination: https://dav.test:8443/x2' -H 'X-Key: forged' -H 'x-key: again' -H 'x_key: forged' -H 'X-Where: forged' \
		-H 'Cookie: a=b' -H 'X-Debug: 1' -H 'X-Other: 1' "$url/x1?a=b"
	check "$at: set for the server" eval "has 'x-key: secret' && [ \"\$(grep -ci '^x.key' '$D/said')\" = 1 ] && has 'x-where: $scheme://dav.test/x1?a=b from 10.99.0.2'"
	check "$at: a prefix is replaced" has 'destination: http://dav.test:8443/x2'
	check "$at: dropped on the way to the server" eval 'has_no cookie && has_no x-debug && has "x-other: 1"'
	check "$at: set for the client" eval "has 'strict-transport-security: max-age=1' && has 'x-asked: $scheme://dav.test/x1?a=b by 10.99.0.2' && has 'x-kept: set' && has 'location: https://dav.test/x'"
	check "$at: dropped on the way to the client" eval 'has_no x-powered-by && has "location2: http://dav.test/x" && ! grep -q secret/1 "$D/said"'
	get "$how" -H 'Destination: http://dav.test/x2' "$url/"
	check "$at: without the prefix it stays" has 'destination: http://dav.test/x2'
	get "$how" "$url/"
	check "$at: what a client does not say is not rewritten" has_no destination
	get "$how" -H 'x_key: forged' -H 'x.key: forged' -H 'x_other: 1' "$url/pass"
	check "$at: nor forged by another spelling" eval '[ "$(grep -ci "^x.key" "$D/said")" = 1 ] && has "x-key: secret" && has "x_other: 1"'
	get "$how" "$url/fixed/y"
	check "$at: replies of the gateway" eval 'has "x-asked: /fixed/y" && has "x-frame-options: DENY"'
done
long=$(head -c 9000 /dev/zero | tr '\0' a)
get "http://dav.test:8080/fixed/$long" --http1.1
check "what is too long to be said is an error" grep -qE '^HTTP/1.1 (414|503)' "$D/said"
for _ in {1..20}; do get --http1.1 "http://dav.test:8080/x" --next -sSki "http://dav.test:8080/fixed"; done
finish
