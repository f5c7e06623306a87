#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each worker uses a part of a group: every backend is used, what comes and goes changes little, and a worker that has
# lost all of its own is served by others.
. "$(dirname "$0")/../lib.sh"

WORKERS=3 ALL=6
arena $WORKERS
names=()
for i in $(seq 1 $((ALL + 1))); do
	backend "b$i" echo
	names+=("b$i")
done

# config SUBSET NAME...: a pool of these.
config() {
	local subset=$1
	shift
	gateway_config <<CONF
interface $GIF { }
workers { count = $WORKERS }
listener v4 { address = "$V4" port = 8080 }
pool echo { subset = $subset batch { max_latency = 10s }
$(for b in "$@"; do echo "backend $b { endpoint = \"shm://$D/$b.sock\" }"; done)
}
route /again { pool = echo idempotent = yes }
route /once { pool = echo idempotent = no }
CONF
}
reloads() { grep -c "reload: in force: " "$D/gw.log"; }
reload() {
	local before
	before=$(reloads)
	kill -HUP "$gateway_pid"
	within 30 eval '[ "$(reloads)" -gt '"$before"' ]' || { tail -n 3 "$D/gw.log"; return 1; }
}
ups() { grep -c "backend echo/.* is up for worker" "$D/gw.log"; }
# used EACH LEAST MOST: each worker is connected with so many, and each backend with so many workers.
used() {
	admin /stats | python3 -c "import collections, json, sys
o = json.load(sys.stdin)
each, least, most, cnt = map(int, sys.argv[1:])
of = collections.Counter(b['name'] for w in o['workers'] for b in w['backends'] if b['state'] == 'up')
print(o['pools'][0]['subsets'], dict(of))
sys.exit(any(s != {'subset': each, 'borrowed': 0, 'connected': each} for s in o['pools'][0]['subsets'])
         or len(of) != cnt or min(of.values()) != least or max(of.values()) != most)" "$1" "$2" "$3" "${4:-$ALL}"
}
own() { admin /stats | python3 -c "import json, sys; print(*(b['name'] for b in json.load(sys.stdin)['workers'][$1]['backends']))"; }
asked() { admin /stats | python3 -c "import json, sys; print(min(w['core']['requests'] for w in json.load(sys.stdin)['workers']))"; }
echo 'wrk.method = "POST" wrk.body = "hello"' >"$D/post.lua"
load() { cl wrk -t 2 -c $WRK_CONNS -d "$1" --timeout 10s -s "$D/post.lua" "http://$V4:8080$2" >"$D/wrk" 2>&1; }
end_load() { # before its time
	pkill -INT -P $wrk
	wait $wrk
}
served() { grep -q 'requests in' "$D/wrk" && ! grep -qE ' 0 requests in|Socket errors' "$D/wrk"; }
clean() { served && ! grep -q Non-2xx "$D/wrk" || { cat "$D/wrk"; false; }; }
# No more than each connection had under way.
few_failed() {
	local failed
	failed=$(sed -n 's/.*Non-2xx or 3xx responses: //p' "$D/wrk")
	echo "failed: ${failed:-0}"
	served && [ "${failed:-0}" -le "$WRK_CONNS" ] || { cat "$D/wrk"; false; }
}
borrowed() { metric "sluice_service_borrowed{worker=\"$1\""; }
retried() { metric sluice_retried_total; }

config 1 "${names[@]:0:ALL}"
check "a subset that leaves backends out is refused" eval '! "$SLUICE" check --offline -c "$D/gw.conf" >"$D/said" 2>&1; cat "$D/said"; [ "$(wc -l <"$D/said")" -eq 1 ] && grep -q "gw.conf:4: found pool \"echo\" with subset = \"1\", too few for its 6 backends and 3 workers; allowed: auto, or from 2 on" "$D/said"'
config 2 "${names[@]:0:ALL}"
gateway_start
check "each backend is connected with one worker" within 30 used 2 1 1
check "once" [ "$(ups)" -eq $ALL ]
mapfile -t turned < <(printf '%s\n' "${names[@]:0:ALL}" | tac)
config 2 "${turned[@]}"
check "another order in the file" reload
check "changes nothing" eval 'used 2 1 1 && [ "$(ups)" -eq $ALL ]'

load 60s /once &
wrk=$!
config 3 "${names[@]:0:ALL}"
check "a larger subset" reload
check "is connected with before it is in force" used 3 1 2
before=$(ups)
config 3 "${names[@]:1:ALL-1}"
check "one backend goes" reload
check "and is not used any more" within 30 used 3 1 2 $((ALL - 1))
config 3 "${names[@]:1:ALL}"
check "another one comes" reload
check "and is used" within 30 used 3 1 2
check "of the others few are connected anew" [ $(($(ups) - before)) -le $((2 * 2 * WORKERS)) ]
config 2 "${names[@]:1:ALL}"
check "a smaller subset" reload
check "leaves what is not in it" within 30 used 2 1 1
check "while there was load" alive $wrk
end_load
check "no request is lost, though none may be sent twice" clean
check "nor sent twice" [ "$(retried)" -eq 0 ]
check "all workers have had some" [ "$(asked)" -gt 0 ]

# All that one worker has, as many as may fail a request before it does. A host that dies takes them at a time.
lose() {
	local b pids=()
	for b in "$@"; do
		pids+=("${pid_of[$b]}")
		unset "pid_of[$b]"
		lost+=("$b")
	done
	kill -KILL "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
}
come_back() {
	local b
	for b in "${lost[@]}"; do rm -f "$D/$b.sock"; done
	for b in "${lost[@]}"; do backend "$b" echo; done
	lost=()
}
lost=()
for way in again once; do
	load 60s /$way &
	wrk=$!
	sleep 1
	read -ra of_one < <(own 1)
	lose "${of_one[@]}"
	check "a worker whose backends are all killed is connected with others" within 30 eval '[ "$(borrowed 1)" -ge 2 ] && [ "$(metric "sluice_service_connected{worker=\"1\"")" -ge 2 ]'
	check "and other workers are not" [ "$(borrowed 0)" -eq 0 -a "$(borrowed 2)" -eq 0 ]
	end_load
	if [ $way = again ]; then
		check "no request fails that may be repeated" clean
	else
		check "none fails but those that were under way" few_failed
	fi
	come_back
	check "when they are back, others are left again" within 30 used 2 1 1
done

lose "${names[@]:1:ALL}"
check "without any backend requests are told so" eval '[ "$(cl curl -s -o /dev/null -w "%{http_code}" --max-time 30 "http://$V4:8080/again")" = 503 ]'
check "and the gateway is not ready" within 30 eval 'admin /readyz | grep -q "no backend of pool echo"'
come_back
check "until they are back" within 30 used 2 1 1
finish
