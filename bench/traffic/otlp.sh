#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# otlp.sh: what request ids and the export of traces cost. One gateway changes its configuration by reloads, so that both
# ways alternate. Rows as of traffic.py: otlp_cost is requests/s with a trace block by those without it,
# otlp_cpu_cost the processor time of a request without it by that with it.
#   ROUNDS (9)   SECONDS_EACH (2)
set -u
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-${here%/bench/traffic}/build}
. "$here/../arena.sh" uot
rounds=${ROUNDS:-9} seconds=${SECONDS_EACH:-2}

# Accepts all that it gets, as a collector that keeps up.
cat >"$D/collector.py" <<'PY'
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 4318), H).serve_forever()
PY
nsenter --net="/run/netns/$G" python3 "$D/collector.py" 2>/dev/null &
pids+=($!)
"$BUILD/echo" --listen "shm://$D/echo.sock" >"$D/echo.log" 2>&1 &
pids+=($!)
configure() { # [TRACE]
	cat >"$D/gw.conf" <<END
user = root
interface $G { }
listener web { address = "10.99.0.1" port = 8080 }
pool echo { backend a { endpoint = "shm://$D/echo.sock" } }
route "/" { pool = echo }
${1:-}
END
}
reload() {
	local before
	before=$(grep -c "reload: in force" "$D/gw.log")
	kill -HUP "$gateway"
	until [ "$(grep -c "reload: in force" "$D/gw.log")" -gt "$before" ]; do sleep 0.02; done
}
configure
nsenter --net="/run/netns/$G" "$BUILD/sluice" run -c "$D/gw.conf" >"$D/gw.log" 2>&1 &
gateway=$!
pids+=("$gateway")
gateway_ready
# Prints requests/s, and nanoseconds of processor time of a request.
window() {
	local cpu rows
	cpu=$(cpu_ns "$gateway")
	rows=$(nsenter --net="/run/netns/$C" "$BUILD/sluice" load -n 16 -d 4 -t "${seconds}s" -w 0 -j -Q "http://10.99.0.1:8080/x") || exit 1
	cpu=$(($(cpu_ns "$gateway") - cpu))
	python3 -c 'import json, sys; o = json.loads(sys.argv[1]); print(o["requests_per_s"], int(sys.argv[2]) / o["requests"])' "$rows" "$cpu"
}
for _ in $(seq "$rounds"); do
	configure
	reload
	window >>"$D/off"
	configure 'trace { request_id = yes otlp = "http://127.0.0.1:4318/v1/traces" sample = 0.01 slow = 0 }'
	reload
	window >>"$D/on"
done
paste "$D/off" "$D/on" | PYTHONPATH="$here/.." python3 -c '
import sys
from rows import at_least, pairs, row
off, off_ns, on, on_ns = zip(*([float(v) for v in line.split()] for line in sys.stdin))
row("otlp_cost", "sluice/no trace", pairs(on, off), "ratio", at_least(0.97))
row("otlp_cpu_cost", "sluice/no trace", pairs(off_ns, on_ns), "ratio")'
