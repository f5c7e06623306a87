#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Health checks of servers with via = stack: by the gateway, once for all workers.
. "$(dirname "$0")/../lib.sh"

arena 2
mkdir "$D/state"
chmod 777 "$D/state"
# web NAME PORT: in the client's namespace, beyond the interface with XDP
web() {
	: >"$D/$1.log"
	nsenter --net="/run/netns/$C" /usr/bin/python3 "$here/agent/health_server.py" "10.99.0.2:$2" "$1" "$D/state" >"$D/$1.log" 2>&1 </dev/null &
	pid_of[$1]=$!
	within 30 grep -qs listening "$D/$1.log" || say_failed "the server $1 does not start"
}
config() {
	cat <<CONF
interface "$GIF" { }
workers { count = 2 }
listener v4 { address = "$V4" port = 8080 }
tcp { server_ports = "20000-29999" }
pool web {
	backend a { endpoint = "http://10.99.0.2:8001" via = stack }
	backend b { endpoint = "http://10.99.0.2:8002" via = stack }
	health { path = "$1" interval = 200ms timeout = 200ms failures = 2 }
	slow_start = 0
}
pool late {
	backend c { endpoint = "http://10.99.0.2:8003" via = stack }
	health { path = "/healthz" interval = 200ms timeout = 200ms }
}
route "/web" { pool = web }
route "/late" { pool = late }
admin { address = "127.0.0.1" port = 9900 }
CONF
}
web a 8001
web b 8002
echo 503 >"$D/state/c.health"
web c 8003
config /healthz | gateway_config
gateway_spawn
admin() { gw curl -s "http://127.0.0.1:9900$1"; }
is() { [ "$(gw curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:9900/readyz?pool=$1")" = "$2" ]; }

check "a pool whose servers pass their checks is ready" within 30 is web 200
state() { gw "$SLUICE" status -c "$D/gw.conf" | grep "^server $1,"; }
unhealthy() { state "$1" | tee "$D/said" | grep -c "own TCP of worker .*health check: $2" | grep -q 2; }
check "a server that never passed is not ready, in no worker" eval 'within 30 unhealthy late/c "status 503; expected 200" && is late 503'
rm "$D/state/c.health"
check "it is after the first check that succeeds, without a request" within 30 is late 200
take_baseline

# got COUNT: replies of COUNT requests, by server
got() { cl curl -sS "http://$V4:8080/web?#[1-$1]" -w '\n' | sort | uniq -c | tr -d '\n'; }
only_b() { got 20 | tee "$D/said" | grep -q '^ *20 b$'; }
both() { got 40 | tee "$D/said" | grep -q 'a.*b'; }
echo 503 >"$D/state/a.health"
check "a check that fails takes the server out in both workers" within 30 unhealthy web/a 'status 503; expected 200'
check "and it gets no requests" within 30 only_b
metrics() { admin /metrics | grep 'sluice_server_healthy{worker=.*web/a' | tee "$D/said" | grep -c ' 0$' | grep -q 2; }
check "a metric shows it" within 10 metrics
rm "$D/state/a.health"
check "it returns with the first check that succeeds" within 30 both
few_lines() { [ "$(grep -c 'web/a: health check' "$D/gw.log")" = "$(grep -c 'web/a: the health check succeeds' "$D/gw.log")" ]; }
check "the log has one line for each change" within 10 few_lines
probes() { wc -c <"$D/state/b.probes"; }
once() {
	local before from=${EPOCHREALTIME/./} cnt
	before=$(probes)
	sleep 2
	cnt=$(($(probes) - before))
	echo "$cnt probes in $((${EPOCHREALTIME/./} - from)) us"
	[ $cnt -le $(((${EPOCHREALTIME/./} - from) / 200000 + 3)) ]
}
check "the gateway probes once per interval, for both workers" once
kill -STOP "${pid_of[b]}"
check "a server that does not answer is taken out" within 30 unhealthy web/b 'no reply in time'
kill -CONT "${pid_of[b]}"
check "and returns" within 30 both

config /elsewhere | gateway_config
echo 500 >"$D/state/a.status"
kill -HUP "$(gateway_child)"
check "a reload changes the check" within 30 unhealthy web/a 'status 500; expected 200'
finish
