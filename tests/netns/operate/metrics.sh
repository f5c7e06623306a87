#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Metrics as Prometheus reads them: `promtool check metrics` has no complaint. Statuses are told per route, pool and
# backend. A Prometheus scrapes the gateway and evaluates every query of the shipped board and alerts.
. "$(dirname "$0")/../lib.sh"

arena
SERVICE=$here/../../user/service
cat >"$D/server.py" <<'END'
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        status = int(self.path.rpartition("/")[2] or 200)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
Server(("127.0.0.1", 9000), Handler).serve_forever()
END
gw /usr/bin/python3 "$D/server.py" >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
backend echo echo
gateway <<END
interface $GIF { }
listener web { address = "$V4" port = 8080 }
pool origin { batch { max_latency = 10s } backend one { endpoint = "http://127.0.0.1:9000" } }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/s" { pool = origin host = "a.example" }
route "/echo" { pool = echo }
route "/sluice.demo.Echo/" { pool = echo }
route "/get" { respond { status = 200 body = "got\n" } }
END

cat >"$D/ask.py" <<'END'
import grpc
from raw import *
c = Client()
for status, times in ((200, 3), (500, 20), (404, 1), (418, 2), (599, 4), (299, 1)):
    for _ in range(times):
        c.send(b"GET /s/%d HTTP/1.1\r\nHost: a.example\r\n\r\n" % status)
        expect("status", c.reply().status, status)
for path, status in ((b"/get", 200), (b"/none", 404), (b"/echo", 200)):
    c.send(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
    expect("status of %s" % path, c.reply().status, status)
channel = grpc.insecure_channel("10.99.0.1:8080")
call = channel.unary_unary("/sluice.demo.Echo/Echo", lambda m: m, lambda m: m)
expect("gRPC", call(b"12345", timeout=20), b"12345")
try:
    channel.unary_unary("/no.Such/Thing", lambda m: m, lambda m: m)(b"", timeout=20)
except grpc.RpcError as e:
    expect("gRPC status", e.code(), grpc.StatusCode.UNIMPLEMENTED)
END
check "requests with many statuses" cl timeout 200 /usr/bin/python3 "$D/ask.py"

# The samples of the three kinds: LABELS STATUS CLASS COUNT
is_at() { [ "$(metric "$1")" = "$2" ]; }
told() { within 10 is_at "sluice_$1,class=\"$3xx\",code=\"$2\"}" "$4"; }
while read -r code class count; do
	for kind in 'route_responses_total{route="a.example/s"' 'pool_responses_total{pool="origin"' \
		'backend_responses_total{pool="origin",backend="one"'; do
		check "$kind has $count of $code" told "$kind" "$code" "$class" "$count"
	done
done <<'END'
200 2 3
500 5 20
404 4 1
418 4 2
other 5 4
other 2 1
503 5 0
END
check "a fixed reply" told 'route_responses_total{route="/get"' 200 2 1
check "no route" told 'route_responses_total{route=""' 404 4 1
grpc_told() { within 10 is_at "sluice_$1,grpc_status=\"$2\"}" "$3"; }
check "a gRPC call, by its route" grpc_told 'route_grpc_responses_total{route="/sluice.demo.Echo/"' 0 1
check "by its backend" grpc_told 'backend_grpc_responses_total{pool="echo",backend="a"' 0 1
check "a call without a route" grpc_told 'route_grpc_responses_total{route=""' 12 1
check "latency per backend" eval '[ "$(metric "sluice_backend_seconds_count{pool=\"origin\",backend=\"one\"}")" = 31 ]'
check "durations by the convention's name" eval \
	'[ "$(metric "http_server_request_duration_seconds_count{http_route=\"a.example/s\",http_response_status_code=\"500\"}")" = 20 ]'
check "and those of gRPC" eval \
	'[ "$(metric "rpc_server_duration_seconds_count{http_route=\"/sluice.demo.Echo/\",rpc_grpc_status_code=\"0\"")" = 1 ]'
rates() { gw "$SLUICE" status | tee "$D/status" | grep -qE "^origin  *[0-9.]+k? .* 200:3 .*500:20"; }
check "status has a row for the pool" within 10 rates
check "one for the backend" grep -qE "^origin/one  *up .* 200:3 .*500:20" "$D/status"
check "and one for the route" grep -qE "^a.example/s  *origin .* 500:20" "$D/status"
cat >"$D/history.py" <<'END'
import json, sys
o = json.load(sys.stdin)
pool = [p for p in o["pools"] if p["pool"] == "origin"][0]
backend = [b for b in o["backends"] if b["backend"] == "one"][0]
assert sum(pool["5xx"]) > 0 and max(pool["p99_ns"]) > 0, pool
assert sum(backend["rate"]) > 0 and max(backend["p50_ns"]) > 0, backend
assert len({len(v) for v in pool.values() if isinstance(v, list)}) == 1, pool
END
in_history() { admin /history | python3 "$D/history.py"; }
check "the history has the errors, and the latency of the backend" within 10 in_history
sed 's,route "/get",route "/other",' "$D/gw.conf" >"$D/new.conf" && cp "$D/new.conf" "$D/gw.conf"
kill -HUP "$gateway_pid"
check "a reload" within 30 grep -q "reload: in force" "$D/gw.log"
check "keeps the counters of a route that stays" told 'route_responses_total{route="a.example/s"' 500 5 20
check "and drops those of a route that goes" eval '[ -z "$(admin /metrics | grep "route=\"/get\"")" ]'

admin /metrics >"$D/metrics"
check "promtool has no complaint" eval 'promtool check metrics <"$D/metrics" >"$D/promtool" 2>&1; cat "$D/promtool"; [ ! -s "$D/promtool" ]'

# --- a Prometheus, while requests run ---

cat >"$D/prometheus.yml" <<END
global: { scrape_interval: 500ms, evaluation_interval: 1s }
rule_files: ["$SERVICE/prometheus-alerts.yml"]
scrape_configs: [{ job_name: sluice, static_configs: [{ targets: ["127.0.0.1:9900"] }] }]
END
check "promtool accepts the alerts" promtool check rules "$SERVICE/prometheus-alerts.yml"
gw prometheus --config.file="$D/prometheus.yml" --storage.tsdb.path="$D/tsdb" --web.listen-address=127.0.0.1:9090 \
	>"$D/prometheus.log" 2>&1 </dev/null &
pid_of[prometheus]=$!
load_until_done() {
	local n=0
	while [ ! -e "$D/done" ]; do
		cl h2load --h1 -t1 -c8 -n2000 "http://$V4:8080/echo/load" >"$D/h2load" 2>&1
		grep -q "2000 succeeded" "$D/h2load" || return 1
		n=$((n + 1))
	done
	[ $n -gt 0 ]
}
load_until_done &
load=$!
cat >"$D/queries.py" <<'END'
"""Each query of the board and the alerts is answered. Those of the board have values, too."""
import json, re, sys, time, urllib.parse, urllib.request
board, alerts = sys.argv[1:3]

def api(path, **args):
    url = "http://127.0.0.1:9090/api/v1/" + path + "?" + urllib.parse.urlencode(args)
    with urllib.request.urlopen(url, timeout=10) as r:
        return json.load(r)

def scraped():
    try:
        return api("query", query="sum(rate(sluice_pool_responses_total[1m])) > 0")["data"]["result"]
    except OSError:
        return []
end = time.monotonic() + 60
while not scraped():
    if time.monotonic() > end:
        sys.exit("Prometheus has no rates")
    time.sleep(.2)
queries = []
def walk(o):
    if isinstance(o, dict):
        if "expr" in o:
            queries.append(o["expr"])
        o = list(o.values())
    if isinstance(o, list):
        for x in o:
            walk(x)
walk(json.load(open(board)))
expect_values = len(queries)
groups = api("rules")["data"]["groups"]
rules = [r for g in groups for r in g["rules"]]
queries += [r["query"] for r in rules]
bad = []
for i, q in enumerate(queries):
    q = q.replace("$__rate_interval", "1m").replace("$pool", ".*")
    o = api("query", query=q)
    if o["status"] != "success":
        bad.append(q + ": " + str(o))
    elif i < expect_values and not o["data"]["result"]:
        bad.append(q + ": no result")
if len(rules) < 5 or expect_values < 10:
    bad.append("found %d rules and %d queries" % (len(rules), expect_values))
print("\n".join(bad))
sys.exit(len(bad) > 0)
END
check "Prometheus answers each query" gw timeout 90 /usr/bin/python3 "$D/queries.py" "$SERVICE/grafana-dashboard.json" \
	"$SERVICE/prometheus-alerts.yml"
cat >"$D/stages.py" <<'END'
import json, sys
rows = {(r["formatted"]["key"]["pool"], r["formatted"]["key"]["stage"]): r["formatted"]["value"] for r in json.load(sys.stdin)}
queue, total = rows["echo", "SL_STAGE_QUEUE"], rows["echo", "SL_STAGE_TOTAL"]
assert queue["recent"] > 0 and queue["p50_ns"] <= queue["p99_ns"], queue
assert total["recent"] > 0 and 0 < total["p50_ns"] <= total["p90_ns"] <= total["p99_ns"], total
assert ("origin", "SL_STAGE_WIRE") in rows and total["count"] > 1000, rows
END
stages() { bpftool -j map dump pinned "/sys/fs/bpf/sluice/$GIF/sl_stages" | python3 "$D/stages.py"; }
check "bpftool tells the quantiles of stages by their names" within 20 stages
touch "$D/done"
check "all requests are answered while Prometheus scrapes" wait $load
kill_backend prometheus
check "requests are answered while nothing scrapes" eval 'cl curl -sf "http://$V4:8080/echo/x" -o "$D/out2"'
kill_backend server
finish
