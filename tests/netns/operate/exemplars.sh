#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A strict parser takes the OpenMetrics output, which has the samples of the text format. Prometheus stores the trace
# ids of sampled requests as exemplars of their durations.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gateway <<END
interface $GIF { }
listener web { address = "$V4" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
quota q { by = address rate = 100000/s }
route "/echo" { pool = echo quotas = "q" }
route "/sluice.demo.Echo/" { pool = echo }
route "/get" { respond { status = 200 body = "got\n" } }
trace { request_id = yes }
END
cat >"$D/ask.py" <<'END'
import grpc
from raw import *
def parent(last, sampled):
    return "00-%031x%x-00f067aa0ba902b7-%02x" % (0xabc, last, sampled)
c = Client()
for path, status, last, sampled in ((b"/get", 200, 1, 1), (b"/get", 200, 2, 0), (b"/echo", 200, 3, 1), (b"/none", 404, 4, 1)):
    c.send(b"GET %s HTTP/1.1\r\nHost: x\r\ntraceparent: %s\r\n\r\n" % (path, parent(last, sampled).encode()))
    expect("status of %s" % path, c.reply().status, status)
call = grpc.insecure_channel("10.99.0.1:8080").unary_unary("/sluice.demo.Echo/Echo", lambda m: m, lambda m: m)
expect("gRPC", call(b"12345", timeout=20, metadata=[("traceparent", parent(5, 1))]), b"12345")
END
check "requests, some of sampled traces" cl timeout 200 /usr/bin/python3 "$D/ask.py"
counted() { [ "$(metric rpc_server_duration_seconds_count)" = 1 ] && [ "$(metric http_server_request_duration_seconds_count)" = 4 ]; }
check "all are counted" within 10 counted

admin /metrics >"$D/text"
openmetrics() { gw curl -sS --max-time 10 -D "$D/head" -H "Accept: $1" http://127.0.0.1:9900/metrics; }
openmetrics "application/openmetrics-text; version=1.0.0" >"$D/openmetrics"
check "its type" grep -qi "^content-type: application/openmetrics-text; version=1.0.0; charset=utf-8" "$D/head"
cat >"$D/parse.py" <<'END'
import math, sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as strict
def samples(families):
    found = set()
    for f in families:
        for s in f.samples:
            key = s.name, tuple((k, str(float(v)) if k == "le" else v) for k, v in sorted(s.labels.items()))
            assert key not in found, key
            found.add(key)
    return found
text = list(parser.text_string_to_metric_families(open(sys.argv[1]).read()))
families = list(strict.text_string_to_metric_families(open(sys.argv[2]).read()))
assert len(families) == len({f.name for f in families}) == len({f.name for f in text}) > 150, len(families)
assert samples(text) == samples(families), samples(text) ^ samples(families)
assert {f.name: f.unit for f in families}["http_server_request_duration_seconds"] == "seconds"
assert {f.type for f in families} == {"counter", "gauge", "histogram", "info"}
got = {}
for f in families:
    bound = {}
    for s in f.samples:
        if not s.name.endswith("_bucket"):
            continue
        series = tuple(sorted((k, v) for k, v in s.labels.items() if k != "le"))
        below, bound[series] = bound.get(series, -1), float(s.labels["le"])
        if s.exemplar:
            assert below < s.exemplar.value <= bound[series], s
            assert abs(float(s.exemplar.timestamp) - float(sys.argv[3])) < 600, s
            assert set(s.exemplar.labels) == {"trace_id"}, s
            route = s.labels["http_route"], s.labels.get("http_response_status_code", "grpc")
            assert route not in got, s
            got[route] = int(s.exemplar.labels["trace_id"], 16) - 0xabc0
assert got == {("/get", "200"): 1, ("/echo", "200"): 3, ("", "404"): 4, ("/sluice.demo.Echo/", "grpc"): 5}, got
END
check "a strict parser takes it: the samples of the other format, and exemplars of sampled requests" \
	/usr/bin/python3 "$D/parse.py" "$D/text" "$D/openmetrics" "$(date +%s)"
openmetrics "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5" >"$D/preferred"
check "a client that prefers text gets it" grep -qi "^content-type: text/plain; version=0.0.4" "$D/head"
check "without exemplars" eval '! grep -qE "trace_id|EOF" "$D/preferred"'

cat >"$D/prometheus.yml" <<END
global: { scrape_interval: 500ms }
scrape_configs: [{ job_name: sluice, static_configs: [{ targets: ["127.0.0.1:9900"] }] }]
END
gw prometheus --config.file="$D/prometheus.yml" --storage.tsdb.path="$D/tsdb" --web.listen-address=127.0.0.1:9090 \
	--enable-feature=exemplar-storage >"$D/prometheus.log" 2>&1 </dev/null &
pid_of[prometheus]=$!
cat >"$D/stored.py" <<'END'
"""Prints "TRACE ROUTE VALUE" of each exemplar that Prometheus has stored, and its number of scrapes."""
import json, sys, urllib.parse, urllib.request
def api(path, **args):
    with urllib.request.urlopen("http://127.0.0.1:9090/api/v1/" + path + "?" + urllib.parse.urlencode(args), timeout=10) as r:
        return json.load(r)["data"]
end = float(sys.argv[1]) + 3600
for metric in "http_server_request_duration_seconds_bucket", "rpc_server_duration_seconds_bucket":
    for series in api("query_exemplars", query=metric, start=end - 7200, end=end):
        for e in series["exemplars"]:
            print(e["labels"]["trace_id"], series["seriesLabels"].get("http_route", "-"), e["value"])
scrapes = api("query", query="count_over_time(sluice_up[10m])")["result"]
print("scrapes", scrapes[0]["value"][1] if scrapes else 0)
END
stored() { gw timeout 20 /usr/bin/python3 "$D/stored.py" "$(date +%s)" >"$D/stored"; }
id() { printf '%032x' $((0xabc0 + $1)); }
all_stored() {
	local n
	stored || return 1
	for n in 1 3 4 5; do grep -q "^$(id $n) " "$D/stored" || return 1; done
}
check "Prometheus stores the exemplars" within 60 all_stored
check "that of a route is the id that its request carried" grep -qE "^$(id 3) /echo [0-9.]+" "$D/stored"
many_scrapes() { stored && [ "$(sed -n 's/^scrapes //p' "$D/stored")" -ge 4 ]; }
check "several scrapes" within 60 many_scrapes
check "store each once" eval '[ "$(grep -vc "^scrapes" "$D/stored")" = 4 ]'
kill_backend prometheus

check "a reload without traces" eval 'sed -i "/^trace/d" "$D/gw.conf"; kill -HUP "$gateway_pid"; within 20 grep -q "reload: in force" "$D/gw.log"'
ask_get() { cl curl -sf --max-time 20 -H "traceparent: 00-$(id 6)-00f067aa0ba902b7-01" "http://$V4:8080/get" -o "$D/out"; }
check "a request" ask_get
check "is no exemplar, and the others stay" eval 'openmetrics "application/openmetrics-text" >"$D/after"; grep -q "$(id 1)" "$D/after" && ! grep -q "$(id 6)" "$D/after"'
echo "trace { request_id = yes }" >>"$D/gw.conf"
kill -HUP "$gateway_pid"
traced_again() { ask_get && openmetrics "application/openmetrics-text" | grep -q "$(id 6)"; }
check "with traces again it is one" within 20 traced_again
gateway_end
finish
