#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Request ids are kept or made; traces continue to servers, and their spans reach a collector that was down. A
# collector that refuses or is silent costs spans, which are counted, and no request.
. "$(dirname "$0")/../lib.sh"

arena
# helper NAME ARGUMENT...
helper() {
	: >"$D/$1.log"
	gw /usr/bin/python3 "$here/operate/collector.py" "$@" >"$D/$1.log" 2>&1 </dev/null &
	pid_of[$1]=$!
	within 30 grep -qs listening "$D/$1.log" || say_failed "$1 does not start"
}
helper server
gateway <<END
interface $GIF { }
listener web { address = "$V4" port = 8080 }
pool app { backend a { endpoint = "http://127.0.0.1:8000" } }
route "/" { pool = app }
route "/fixed" { respond { status = 200 body = "x" } }
trace { request_id = yes otlp = "http://127.0.0.1:4318/v1/traces" sample = 0 slow = 0 }
admin { address = "127.0.0.1" port = 9900 }
END
cat >"$D/ask.py" <<'PY'
import json, subprocess, sys
base, version, state = sys.argv[1:]
parent, trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"
def ask(path, *fields):
    args = [a for f in fields for a in ("-H", f)]
    said = subprocess.run(["curl", "-sSi", "--max-time", "20", version, *args, base + path], check=True, capture_output=True, text=True).stdout
    head, _, body = said.replace("\r", "").partition("\n\n")
    reply = [l.partition(": ")[2] for l in head.split("\n") if l.lower().startswith("x-request-id:")]
    seen = json.loads(body)
    return reply, lambda name: [v for k, v in seen if k.replace("_", "-") == name]
spans = {}
reply, seen = ask("/x", "traceparent: " + parent, "tracestate: a=b", "x-request-id: mine-1.2/3")
assert reply == ["mine-1.2/3"] == seen("x-request-id"), (reply, seen("x-request-id"))
(to,) = seen("traceparent")
assert to.startswith(f"00-{trace}-") and to.endswith("-01") and to != parent and seen("tracestate") == ["a=b"], to
spans["parent"] = to[36:52]
reply, seen = ask("/x", "x_request_id: forged", "Trace_Parent: forged", "traceparent: 00-" + "0" * 32 + "-00f067aa0ba902b7-01", "tracestate: a=b")
(to,), (own,) = seen("traceparent"), seen("x-request-id")
assert to.endswith("-00") and reply == [own] and len(own) == 32 and to[3:35] == own and not seen("tracestate"), (to, own, reply)
spans["unsampled"] = to[36:52]
reply, seen = ask("/x", "traceparent: " + parent, "traceparent: " + parent, 'x-request-id: a"b')
(to,) = seen("traceparent")
assert to[3:35] != trace and reply == seen("x-request-id") == [to[3:35]], (to, reply)
reply, seen = ask("/own", "x-request-id: mine")
assert reply == ["of-the-server"] and seen("x-request-id") == ["mine"], reply
reply, seen = ask('/fail?"\\', "traceparent: " + parent[:-1] + "0")
(to,) = seen("traceparent")
assert to.endswith("-00"), to
spans["failed"] = to[36:52]
# A head that is refused before it is a request of any route.
said = subprocess.run(["curl", "-sSi", "--max-time", "20", version, "-H", "x-request-id: mine", base + "/" + "x" * 12000], check=True, capture_output=True, text=True).stdout
head = said.replace("\r", "").partition("\n\n")[0].lower()
ids = [l.partition(": ")[2] for l in head.split("\n") if l.startswith("x-request-id:")]
assert " 414" in head.split("\n")[0] and len(ids) == 1 and (ids == ["mine"] or len(ids[0]) == 32), head
json.dump(spans, open(state, "w"))
PY
for version in --http1.1 --http2-prior-knowledge; do
	check "$version: ids and traces, without a collector" cl timeout 200 python3 "$D/ask.py" "http://$V4:8080" $version "$D/spans$version.json"
done
check "failed requests to the collector are counted" within 20 eval '[ "$(metric sluice_trace_requests_failed_total)" -ge 1 ]'
cat >"$D/see.py" <<'PY'
import json, sys
got = {}
for line in open(sys.argv[1]):
    s = json.loads(line)
    assert s["spanId"] not in got, s
    got[s["spanId"]] = s, {a["key"]: next(iter(a["value"].values())) for a in s["attributes"]}
for state in sys.argv[2:]:
    want = json.load(open(state))
    s, attributes = got[want["parent"]]
    assert s["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736" and s["parentSpanId"] == "00f067aa0ba902b7" and "status" not in s, s
    assert s["name"] == "GET /" and s["kind"] == 2 and 0 < int(s["endTimeUnixNano"]) - int(s["startTimeUnixNano"]) < 60e9, s
    assert attributes["http.response.status_code"] == "200" and attributes["sluice.request_id"] == "mine-1.2/3", attributes
    assert attributes["sluice.pool"] == "app" and attributes["sluice.backend"] == "a" and attributes["url.path"] == "/x", attributes
    s, attributes = got[want["failed"]]
    assert s["status"]["code"] == 2 and attributes["http.response.status_code"] == "500", s
    assert want["unsampled"] not in got
assert len(got) == 2 * len(sys.argv[2:]), got
PY
: >"$D/spans"
echo 503 >"$D/mode"
helper collector "$D"
check "a collector that refuses for now is asked" within 20 grep -q 503 "$D/asked"
echo 200 >"$D/mode"
sees() { python3 "$D/see.py" "$D/spans" "$D"/spans--http*.json; }
check "the collector gets what has waited: sampled traces and failures" within 30 sees
check "they are counted" within 10 eval '[ "$(metric sluice_trace_spans_exported_total)" = 4 ]'
fail() { cl curl -s -o "$D/reply" --max-time 20 "http://$V4:8080/fail"; }
discarded() { metric sluice_trace_spans_discarded_total; }
echo 400 >"$D/mode"
check "a failure" fail
check "spans that the collector refuses for good are discarded" within 20 eval '[ "$(discarded)" = 1 ]'
echo silent >"$D/mode"
check_py "requests go on with a silent collector" "$V4" <<'PY'
from raw import *
want = (b"GET /fixed HTTP/1.1\r\nHost: x\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n")
c = Client(timeout=60)
for _ in range(50):
    c.send(want * 50)
    for _ in range(50):
        assert c.reply().status == 200
PY
lost() { echo $(($(discarded) + $(metric sluice_trace_spans_dropped_total))); }
check "spans beyond the limit are dropped and counted" within 20 eval '[ "$(lost)" -gt 1 ]'
check "a reload without a collector" eval 'sed -i "s/^trace .*/trace { request_id = yes }/" "$D/gw.conf"; kill -HUP "$gateway_pid"; within 20 grep -q "reload: in force" "$D/gw.log"'
parent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
reload_ids() { cl curl -sSi --max-time 20 -H "x-request-id: kept" -H "traceparent: $parent" "http://$V4:8080/x" >"$D/reply" && grep -qi "^x-request-id: kept" "$D/reply" && grep -q "$parent" "$D/reply"; }
check "it passes traceparent on, and keeps ids" within 10 reload_ids
gateway_end
finish
