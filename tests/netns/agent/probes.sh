#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Active health checks by agents: HTTP and gRPC; readiness of pools.
. "$(dirname "$0")/../lib.sh"

arena
mkdir "$D/state"
chmod 777 "$D/state"
# serve NAME PROGRAM ARGUMENT...
serve() {
	local name=$1
	shift
	: >"$D/$name.log"
	nsenter --net="/run/netns/$G" /usr/bin/python3 "$@" >"$D/$name.log" 2>&1 </dev/null &
	pid_of[$name]=$!
	within 30 grep -qs listening "$D/$name.log" || say_failed "the server $name does not start"
}
web() { serve "$1" "$here/agent/health_server.py" "127.0.0.1:$2" "$1" "$D/state"; }
web a 8001
web b 8002
in_group nsenter --net="/run/netns/$G" "$SLUICE" agent --listen "shm://$D/far.sock" --to http://127.0.0.1:8001 \
	--health /healthz --health-interval 200ms >"$D/far.log" 2>&1 </dev/null &
pid_of[far]=$!
within 30 test -S "$D/far.sock" || say_failed "the agent does not start"
gateway_config <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
pool web {
	backend a { endpoint = "http://127.0.0.1:8001" }
	backend b { endpoint = "http://127.0.0.1:8002" }
	health { path = "/healthz" interval = 200ms timeout = 200ms failures = 2 }
	slow_start = 0
}
pool rpc {
	backend g { endpoint = "h2c://127.0.0.1:8003" }
	health { service = "app" interval = 200ms timeout = 200ms }
}
pool far { backend f { endpoint = "shm://$D/far.sock" } slow_start = 0 }
pool plain { backend c { endpoint = "http://127.0.0.1:8004" } }
route "/web" { pool = web }
route "/far" { pool = far }
route "/plain" { pool = plain }
route "/x.Y/" { pool = rpc }
admin { address = "127.0.0.1" port = 9900 }
CONF
gateway_spawn
admin() { gw curl -s "http://127.0.0.1:9900$1"; }
code() { gw curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:9900$1"; }
is() { [ "$(code "/readyz?pool=$1")" = "$2" ]; }

check "a pool whose servers pass their checks is ready" within 30 is web 200
check "a pool whose server was never reached is not" eval 'is plain 503 && is rpc 503 && is none 404 && [ "$(code /readyz)" = 503 ]'
verbose() { admin '/readyz?verbose' | tee "$D/said"; grep -q 'pool web: ready' "$D/said" && grep -q 'pool plain: no backend is up' "$D/said"; }
check "readyz?verbose has a line for each pool" verbose
web c 8004
check "it is when the server is there, without a request" within 30 is plain 200
serve g "$here/agent/probed_grpc.py" 127.0.0.1:8003 "$D/state"
check "a gRPC server is asked for its health" within 30 is rpc 200
check "and the gateway is ready" within 30 eval '[ "$(code /readyz)" = 200 ]'
take_baseline

# got COUNT: replies of COUNT requests, by server
got() { cl curl -sS "http://$V4:8080/web?#[1-$1]" -w '\n' | sort | uniq -c | tr -d '\n'; }
state() { gw "$SLUICE" status -c "$D/gw.conf" | grep "^server $1,"; }
unhealthy() { state "$1" | tee "$D/said" | grep -q "health check: $2"; }
echo 503 >"$D/state/a.health"
check "a check that fails takes the server out" within 30 unhealthy web/a 'status 503; expected 200'
only_b() { got 20 | tee "$D/said" | grep -q '^ *20 b$'; }
check "and it gets no requests" within 30 only_b
metrics() { admin /metrics | grep 'sluice_server_healthy{.*web/a' | tee "$D/said" | grep -q ' 0$'; }
check "a metric shows it" within 10 metrics
rm "$D/state/a.health"
both() { got 40 | tee "$D/said" | grep -q 'a.*b'; }
check "it returns with the first check that succeeds" within 30 both
few_lines() { [ "$(grep -c 'web/a: health check' "$D/gw.log")" = "$(grep -c 'web/a: the health check succeeds' "$D/gw.log")" ]; }
check "the log has one line for each change" within 10 few_lines
echo 2 >"$D/state/grpc.health"
check "a gRPC server that is not SERVING is taken out" within 30 is rpc 503
check "and the reason is said" within 10 unhealthy rpc/g 'the status is not SERVING'
rm "$D/state/grpc.health"
check "it returns" within 30 is rpc 200

# An agent by hand.
far() { gw "$SLUICE" status -c "$D/gw.conf" | grep '^backend far/f,' | tee "$D/said" | grep -q ": $1,"; }
check "an agent by hand checks, too" within 30 far up
echo 500 >"$D/state/a.health"
check "and is not ready while its server fails" within 30 far 'not ready'
rm "$D/state/a.health"
check "until the server answers" within 30 far up
bad_option() { ! "$SLUICE" agent --listen shm:///x --to http://127.0.0.1:1 --health "$1" >"$D/said" 2>&1; }
check "a path has no blanks and begins with /" eval 'bad_option "/a b" && bad_option name'

# One process of the gateway probes each server: 2 workers would make twice as many.
probes() { wc -c <"$D/state/b.probes"; }
once() {
	local before from=${EPOCHREALTIME/./} cnt
	before=$(probes)
	sleep 2
	cnt=$(($(probes) - before))
	echo "$cnt probes in $((${EPOCHREALTIME/./} - from)) us"
	[ $cnt -le $(((${EPOCHREALTIME/./} - from) / 200000 + 3)) ]
}
check "each agent probes once per interval" once
kill -STOP "${pid_of[b]}"
check "a server that does not answer is taken out" within 30 unhealthy web/b 'no reply in time'
kill -CONT "${pid_of[b]}"
check "and returns" within 30 both

mistakes() {
	sed 's,"/healthz","no slash",' "$D/gw.conf" >"$D/bad.conf"
	! gw "$SLUICE" check -c "$D/bad.conf" >"$D/said" 2>&1 && grep -q 'found path = "no slash" in health' "$D/said" || return 1
	sed 's/timeout = 200ms failures/timeout = 2s failures/' "$D/gw.conf" >"$D/bad.conf"
	! gw "$SLUICE" check -c "$D/bad.conf" >"$D/said" 2>&1 && grep -q 'found timeout above interval' "$D/said" || return 1
	echo 'pool s { backend a { endpoint = "shm:///x" } health { } } route "/s" { pool = s }' | cat "$D/gw.conf" - >"$D/bad.conf"
	! gw "$SLUICE" check -c "$D/bad.conf" >"$D/said" 2>&1 && grep -q 'without an unmodified server' "$D/said"
}
check "mistakes have a line" mistakes

finish
