#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The configuration changes under load: no request fails because of it.
. "$(dirname "$0")/lib.sh"

arena 2
backend a echo
backend b echo
backend c echo
# config ROUTES-AND-POOLS
config() {
	gateway_config <<CONF
interface $GIF { }
workers { count = 2 }
listener v4 { address = "$V4" port = 8080 }
$1
CONF
}
pool() { # pool NAME BACKENDS [MORE]: backends that are all up
	local b
	echo "pool $1 { batch { bound = 10s ${3:-} }"
	for b in $2; do echo "backend $b { endpoint = \"shm://$D/$b.sock\" }"; done
	echo "}"
}
reloads() { grep -c "reload: in force: " "$D/gw.log"; }
reload() { # and wait until it is in force
	local before
	before=$(reloads)
	kill -HUP "$gateway_pid"
	within 10 eval '[ "$(reloads)" -gt '"$before"' ]' || { tail -n 3 "$D/gw.log"; return 1; }
}
get() { cl curl -sS --max-time 10 "http://$V4:8080$1"; }

config "$(pool echo "a b")
route /echo { pool = echo } route / { reply = 200 body = one }"
gateway_start
check "a fixed reply" eval '[ "$(get /)" = one ]'
config "$(pool echo "a b")
route /echo { pool = echo } route / { reply = 200 body = two } route /new { pool = echo }"
check "reload" reload
check "another fixed reply" eval '[ "$(get /)" = two ]'
check "another route" eval '[ "$(cl curl -sS --max-time 10 -d hello "http://$V4:8080/new")" = hello ]'

# 20 reloads under load, each with other backends, pools, routes and batches.
wrk_clean() {
	cat "$D/wrk"
	grep -q 'requests in' "$D/wrk" && ! grep -qE ' 0 requests in|Non-2xx|Socket errors' "$D/wrk"
}
cl wrk -t 2 -c "$WRK_CONNS" -d 12s --timeout 10s "http://$V4:8080/echo" >"$D/wrk" 2>&1 &
load=$!
many_reloads() {
	local i
	for i in 1 2 3 4 5; do
		config "$(pool echo "a c" "max_size = 8")
		route /echo { pool = echo } route / { reply = 200 body = n$i }"
		reload || return 1
		config "$(pool echo "c") $(pool other "b")
		route /echo { pool = other } route / { reply = 200 body = m$i }"
		reload || return 1
		config "$(pool other "a b" "policy = fixed size = 4 delay = 1ms")
		route /echo { pool = other }  route /more { reply = 204 }"
		reload || return 1
		config "$(pool echo "b a")
		route /echo { pool = echo } route / { reply = 200 body = end }"
		reload || return 1
	done
}
check "20 reloads" many_reloads
check "while there was load" alive $load
wait $load
check "which lost no request" wrk_clean
check "the last one is in force" eval '[ "$(get /)" = end ]'
check "and only its pools are shown" eval 'admin /stats | python3 -c "import json, sys
o = json.load(sys.stdin)
names = [s[\"pool\"] for s in o[\"services\"]], [[b[\"pool\"] + b[\"name\"] for b in w[\"backends\"]] for w in o[\"workers\"]]
print(names)
sys.exit(names != ([\"echo\"], [[\"echoa\", \"echob\"]] * 2) and names != ([\"echo\"], [[\"echob\", \"echoa\"]] * 2))"'
finish
