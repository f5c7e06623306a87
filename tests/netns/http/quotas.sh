#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Quotas of routes: rates and open requests of each client, over all protocols, of two workers together, over a reload.
. "$(dirname "$0")/../lib.sh"

arena 2
backend a echo
# Names the number in the body as the tokens of the request, in a header or a trailer.
cat >"$D/server.py" <<'PY'
import http.server
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        used = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        if "openai" in self.path: # an event stream, in two pieces, or one object
            events = "events" in self.path
            text = b'{"choices": [], "usage": {"total_tokens": %s}}' % used
            if events:
                text = b'data: {"usage": null}\n\ndata: ' + text + b"\n\ndata: [DONE]\n\n"
            self.send_header("Content-Type", "text/event-stream" if events else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            for piece in (text[:45], text[45:]):
                self.wfile.write(piece)
        elif "trailer" in self.path:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"2\r\nok\r\n0\r\nX-Tokens-Used: %s\r\n\r\n" % used)
        else:
            self.send_header("X-Tokens-Used", used.decode())
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()
PY
gw /usr/bin/python3 "$D/server.py" >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 gw bash -c 'exec 3<>/dev/tcp/127.0.0.1/8000' 2>/dev/null || say_failed "the server does not start"
# Rates of a day give a bucket no token while this runs: all counts are those of bursts.
config() { # config BURST: of the quota `address`
	cat <<EOC
interface $GIF { queues = {0, 1} }
workers { count = 2 }
listener web { address = "$V4" port = 8080 }
listener v6 { address = "$V6" port = 8080 }
pool echo { backend a { endpoint = "shm://$D/a.sock" } batch { max_latency = 10s } }
quota address { rate = 1/d  burst = $1 }
quota all { by = route  rate = 1/d  burst = 9 }
quota open { by = header  header = "x-tenant"  max_requests = 2 }
route "/tenant" { pool = echo  quotas = {tenant} }
route "/address" { pool = echo  quotas = {address} }
route "/both" { respond { body = "ok" }  quotas = {address, all} }
route "/open" { pool = echo  quotas = {open} }
route "/grpc.Echo/" { pool = echo  quotas = {grpc} }
quota tenant { by = header  header = "X-Tenant"  rate = 1/d  burst = 20 }
quota used { by = header  header = "x-tenant"  rate = 1/d  burst = 10  usage_member = "usage.total_tokens" }
route "/openai" { pool = app  quotas = {used} }
route "/openai-events" { pool = app  quotas = {used}  stream = yes }
pool app { backend a { endpoint = "http://127.0.0.1:8000" } }
quota tokens { by = header  header = "x-tenant"  rate = 1/d  burst = 10  usage_header = "X-Tokens-Used" }
route "/usage" { pool = app  quotas = {tokens} }
quota grpc { rate = 1/d  burst = 1 }
EOC
}
config 7 | gateway
cat >"$D/tenants.py" <<'PY'
from raw import *
def begin(c, path, tenant=None, length=1):
    field = b"X-Tenant: %s\r\n" % tenant if tenant is not None else b""
    c.send(b"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\nx" % (path, field, length))
def ask(c, path, tenant=None):
    begin(c, path, tenant)
    return c.reply()
PY
export PYTHONPATH=$PYTHONPATH:$D
check_py "two workers share the bucket of each client; a greedy one takes none of others" <<'EOF'
from tenants import *
cs = [Client(V4) for _ in range(16)]
good = {}
for turn in range(20):
    for i, c in enumerate(cs):
        for tenant in (b"greedy", b"t%d" % i):
            good[tenant] = good.get(tenant, 0) + (ask(c, b"/tenant", tenant).status == 200)
expect("greedy", good.pop(b"greedy"), 20)
expect("others", set(good.values()), {20})
r = ask(cs[0], b"/tenant", b"greedy")
expect("status", r.status, 429)
expect("policy", r.headers["ratelimit-policy"], '"tenant";q=20;w=1728000')
left = int(r.headers["retry-after"])
expect("wait", 80000 < left <= 86400, True)
expect("limit", r.headers["ratelimit"], f'"tenant";r=0;t={left}')
expect("without the header: one bucket", [ask(cs[i % 16], b"/tenant").status for i in range(21)], [200] * 20 + [429])
EOF
refused() { metric "sluice_quota_refused_total{quota=\"$1\",limit=\"$2\"}"; }
check "refusals are counted" eval '[ "$(refused tenant rate)" -eq 302 ]'
check "they are outcomes of both workers" eval 'admin /metrics | awk "/^sluice_exchanges_total.*\"rate_limit\"/ { n += \$NF; w += \$NF > 0 } END { exit !(n == 302 && w == 2) }"'
check_py "IPv4 addresses and IPv6 /64 have a bucket each" <<'EOF'
from tenants import *
for host in (V4, V6):
    cs = [Client(host) for _ in range(8)]
    expect(host, sorted(ask(c, b"/address").status for c in cs), [200] * 7 + [429])
EOF
config 10 | gateway_config
check "reload" gw "$SLUICE" reload
check_py "a reload keeps the buckets, with other sizes; a refused request takes no token of another quota" <<'EOF'
from tenants import *
cs = [Client(V4) for _ in range(8)]
expect("greedy", ask(cs[0], b"/tenant", b"greedy").status, 429)
expect("another", ask(cs[0], b"/tenant", b"new").status, 200)
expect("3 more", sorted(ask(c, b"/address").status for c in cs), [200] * 3 + [429] * 5)
expect("none left of the address", [ask(c, b"/both").status for c in cs], [429] * 8)
c = Client(V6)
expect("3 of the other", [ask(c, b"/both").status for _ in range(4)], [200] * 3 + [429])
EOF
config 100 | gateway_config
check "reload" gw "$SLUICE" reload
check_py "the quota of a route is for all its clients" <<'EOF'
from tenants import *
expect("6 more", [ask(Client(h), b"/both").status for h in (V4, V6) * 4], [200] * 6 + [429] * 2)
EOF
check_py "open requests of a client are limited, not those of others" <<'EOF'
from tenants import *
def start(tenant):  # returns 100 once the request is open
    c = Client(V4)
    c.send(b"POST /open HTTP/1.1\r\nHost: x\r\nX-Tenant: %s\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n" % tenant)
    return c, c.reply().status
def end(c):
    c.send(b"xy")
    return c.reply().status
for turn in range(2):
    mine = [start(b"greedy") for _ in range(6)]
    expect("greedy", [status for _, status in mine], [100] * 2 + [429] * 4)
    others = [start(b"t%d" % i) for i in range(8)]
    expect("others", [status for _, status in others], [100] * 8)
    expect("all are answered", [end(c) for c, _ in mine[:2] + others], [200] * 10)
mine = [start(b"greedy") for _ in range(3)]
expect("full", [status for _, status in mine], [100, 100, 429])
for c, _ in mine:
    c.close()
expect("both have ended", eventually(10, lambda: ask(Client(V4), b"/open", b"greedy").status == 200), True)
EOF
check "refusals are counted, too" eval '[ "$(refused open max_requests)" -ge 9 ]'
check_py "replies charge the tokens that they name, in a header or a trailer" <<'EOF'
from tenants import *
c = Client(V4)
def use(tenant, tokens, path=b"/usage/header"):
    c.send(b"POST %s HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nX-Tenant: %s\r\nContent-Length: %d\r\n\r\n%s" % (path, tenant, len(tokens), tokens))
    c.last = c.reply()
    return c.last.status
expect("all of the burst", [use(b"a", n) for n in (b"4", b"0", b"6", b"1")], [200, 200, 200, 429])
expect("one at a time", [use(b"b", b"1") for _ in range(12)], [200] * 10 + [429] * 2)
expect("a debt", [use(b"c", n) for n in (b"9", b"100", b"1")], [200, 200, 429])
expect("its end is at most a day behind the burst", int(c.last.headers["retry-after"]), 86400)
expect("no number", [use(b"d", n) for n in (b"-5", b"1e3", b"18446744073709551617", b"10", b"1")], [200] * 4 + [429])
EOF
check_py "trailers charge, too" <<'EOF'
from tenants import *
import http.client
def use(tokens):
    c = http.client.HTTPConnection(V4, 8080, timeout=15)
    c.request("POST", "/usage/trailer", body=tokens, headers={"X-Tenant": "e", "TE": "trailers"})
    r = c.getresponse()
    return r.status, r.read() == b"ok"
expect("of the end", [use(n) for n in ("3", "7", "1")], [(200, True), (200, True), (429, False)])
EOF
check "tokens are counted" eval '[ "$(metric "sluice_quota_charged_tokens_total{quota=\"tokens\"")" -eq 149 ] && [ "$(metric "sluice_quota_unreadable_total{quota=\"tokens\"")" -eq 3 ]'
check_py "replies charge the tokens in their JSON, whole or in events" <<'EOF'
from tenants import *
c = Client(V4)
def use(path, tenant, tokens):
    c.send(b"POST %s HTTP/1.1\r\nHost: x\r\nX-Tenant: %s\r\nContent-Length: %d\r\n\r\n%s" % (path, tenant, len(tokens), tokens))
    return c.reply().status
for path, tenant in ((b"/openai", b"j"), (b"/openai-events", b"k")):
    expect(path, [use(path, tenant, n) for n in (b"4", b"0", b"-5", b"6", b"1")], [200, 200, 200, 200, 429])
EOF
check "they are counted" eval '[ "$(metric "sluice_quota_charged_tokens_total{quota=\"used\"")" -eq 20 ] && [ "$(metric "sluice_quota_unreadable_total{quota=\"used\"")" -eq 2 ]'
grpc() { cl curl -sS -i --http2-prior-knowledge --max-time 10 -H 'content-type: application/grpc' -H 'te: trailers' --data-binary "@$D/empty" "http://$V4:8080/grpc.Echo/Call" 2>/dev/null | tr -d '\r' >"$D/said"; }
printf '\0\0\0\0\0' >"$D/empty"
grpc
check "gRPC: a call reaches the backend" grep -q "^grpc-status: 12" "$D/said"
grpc
check "gRPC: RESOURCE_EXHAUSTED" grep -q '^grpc-status: 8' "$D/said"
cl curl -sS -i --http2-prior-knowledge --max-time 10 -H 'X-Tenant: greedy' -d x "http://$V4:8080/tenant" | tr -d '\r' >"$D/said"
check "HTTP/2: 429 with the same fields" eval 'grep -q "^HTTP/2 429" "$D/said" && grep -q "^ratelimit-policy: \"tenant\";q=20;w=1728000$" "$D/said" && grep -qE "^retry-after: 8[0-9]{4}$" "$D/said" && grep -qE "^ratelimit: \"tenant\";r=0;t=8[0-9]{4}$" "$D/said"'
config 100 | sed 's/burst = 100/burst = 0.5/; s/{open}/{none}/' | gateway_config
check "mistakes are named" eval '! gw "$SLUICE" check -c "$D/gw.conf" 2>"$D/mistakes" && grep -q "gw.conf:6: found burst = .0.5.; allowed: a whole number" "$D/mistakes" && grep -q "gw.conf:12: found quotas = .none.; allowed: names of quota blocks" "$D/mistakes"'
finish
