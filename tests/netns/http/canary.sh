#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A share of requests for another pool (split), and copies of requests (mirror), for programs of the SDK and unmodified
# servers.
. "$(dirname "$0")/../lib.sh"

arena
for b in main canary copy; do
	backend $b echo
done
for p in 8000 8001 8002; do
	gw /usr/bin/python3 "$here/agent/server.py" 127.0.0.1:$p >"$D/server-$p.log" 2>&1 &
	pid_of[server-$p]=$!
	within 30 grep -qs listening "$D/server-$p.log" || say_failed "the server does not start"
done
gateway <<EOC
interface $GIF { }
listener web { address = "$V4" port = 8080 }
pool main { backend a { endpoint = "shm://$D/main.sock" } }
pool canary { backend a { endpoint = "shm://$D/canary.sock" } }
pool copy { backend a { endpoint = "shm://$D/copy.sock" } }
pool main-server { backend a { endpoint = "http://127.0.0.1:8000" } }
pool canary-server { backend a { endpoint = "http://127.0.0.1:8001" } }
pool copy-server { backend a { endpoint = "http://127.0.0.1:8002" } }
route /sdk { pool = main strip_prefix = yes split { pool = canary percent = 30 header = "x-canary: yes" } mirror { pool = copy } }
route /web { pool = main-server strip_prefix = yes split { pool = canary-server percent = 30 header = "x-canary: yes" } mirror { pool = copy-server } }
EOC

requests() { metric "sluice_stage_seconds_count{pool=\"$1\",stage=\"total\"}"; }
status() { cl curl -sS --max-time 10 -o "$D/reply" -w '%{http_code}' "$@"; }
# answers POOL CURL-OPTION...: ten requests, of which that pool gets all
answers() {
	local pool=$1 before
	shift
	before=$(requests "$pool")
	for _ in {1..10}; do
		[ "$(status "$@")" = 200 ] && [ "$(cat "$D/reply")" = hello ] || return 1
	done
	within 10 eval "[ \$(requests $pool) -eq $((before + 10)) ]"
}
counted_60() { [ $(($(requests "main$1") + $(requests "canary$1") - ${2/ / - })) -eq 60 ]; }
# shares SUFFIX: 60 requests have both pools
shares() {
	local before
	before="$(requests "main$1") $(requests "canary$1")"
	cl curl -sS --max-time 30 -d hello "$url?#[1-60]" -o /dev/null -w '%{http_code}\n' | sort | uniq -c | grep -q '^ *60 200$' || return 1
	within 10 counted_60 "$1" "$before" || return 1
	python3 -c 'import sys
main, canary = (int(a) - int(b) for a, b in zip(sys.argv[2].split(), sys.argv[1].split()))
print(main, canary)
sys.exit(not 3 <= canary <= 36)' "$before" "$(requests "main$1") $(requests "canary$1")"
}
for way in sdk web; do
	url=http://$V4:8080/$way/echo
	[ $way = sdk ] && suffix= || suffix=-server
	copies=$(requests copy$suffix)
	for how in --http1.1 --http2-prior-knowledge; do
		check "$way $how: a header selects the canary" answers canary$suffix $how -d hello -H "x-canary: yes" "$url"
		check "$way $how: or not" answers main$suffix $how -d hello -H "x-canary: no" "$url"
	done
	check "$way: a share of all others" shares "$suffix"
	check "$way: copies of all of them" within 10 eval '[ "$(requests copy'$suffix')" = $((copies + 100)) ]'
done
check "none was dropped" eval '[ "$(metric sluice_mirror_dropped_total)" = 0 ] && [ "$(metric sluice_mirrored_total)" = 200 ]'
check "copies are no requests of clients" eval '[ "$(metric sluice_requests_total)" = 200 ]'

check "the mirror is up" test "$(metric "sluice_backend_up{worker=\"0\",pool=\"copy\"")" = 1
# Mirrors that are stopped, and then gone: requests are answered as ever, and the gateway is ready.
kill -STOP "${pid_of[copy]}" "${pid_of[server-8002]}"
for way in sdk web; do
	[ $way = sdk ] && suffix= || suffix=-server
	check "$way: the mirror does not answer" answers main$suffix -d hello -H "x-canary: no" "http://$V4:8080/$way/echo"
done
kill_backend copy
kill_backend server-8002
check "the mirror's backend is down" within 30 eval '[ "$(metric "sluice_backend_up{worker=\"0\",pool=\"copy\"")" = 0 ]'
for way in sdk web; do
	[ $way = sdk ] && suffix= || suffix=-server
	check "$way: the mirror is gone" answers main$suffix -d hello -H "x-canary: no" "http://$V4:8080/$way/echo"
done
check "its copies are counted" within 30 eval '[ "$(metric sluice_mirror_dropped_total)" -ge 10 ]'
check "the gateway is ready" eval '[ "$(gw curl -sS -o /dev/null -w "%{http_code}" http://127.0.0.1:9900/readyz)" = 200 ]'
finish
