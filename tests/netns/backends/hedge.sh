#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One of two backends takes requests and answers none. Hedged requests are answered by the other one, in batches and
# direct, with bodies, through a reload and the end of the slow one. Its slowness is no failure.
. "$(dirname "$0")/../lib.sh"

arena
backend quick echo
backend slow echo --delay-us 90000000
pool() { echo "pool $1 { batch { max_latency = 10s $2 } backend q { endpoint = \"shm://$D/quick.sock\" } backend s { endpoint = \"shm://$D/slow.sock\" } }"; }
gateway <<CONF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
$(pool batched "")
$(pool direct "policy = direct")
route "/batched" { pool = batched hedge = 20ms idempotent = yes }
route "/direct" { pool = direct hedge = 20ms idempotent = yes }
route "/get" { pool = batched hedge = 20ms }
route "/adaptive" { pool = direct hedge = p95 }
admin { address = "127.0.0.1" port = 9900 }
CONF

URL=http://$V4:8080
head -c 200000 /dev/urandom >"$D/body"
up() { [ "$(metric 'sluice_backend_up{')" -eq 4 ]; }
check "all backends are up" within 30 up

# posts PATH N: that many bodies come back whole
posts() {
	for _ in $(seq "$2"); do
		cl curl -sf --max-time 60 --data-binary "@$D/body" -H 'Expect:' -o "$D/reply" "$URL$1" || return 1
		cmp "$D/body" "$D/reply" || return 1
	done
}
grows() { [ "$(metric "sluice_$1_total")" -gt "$2" ]; }
for path in batched direct; do
	before=$(metric sluice_hedges_won_total)
	check "/$path: each request is answered" posts "/$path" 6
	# The choice between two idle backends is random.
	more() { posts "/$path" 1 && grows hedges_won "$before"; }
	check "/$path: some by their second copy" within 60 more
done
# Either at once, or as one of several that wait at the slow one.
gets() {
	cl curl -sf --max-time 60 --parallel --parallel-immediate --parallel-max 8 -o /dev/null -w '%{http_code}\n' "$URL/get?n=[1-8]" >"$D/codes"
	[ "$(grep -c '^200$' "$D/codes")" -eq 8 ]
}
check "requests at once are answered" gets
check "no copy was refused by the budget" [ "$(metric sluice_hedges_refused_total)" -eq 0 ]
check "no request was repeated otherwise" [ "$(metric sluice_retried_total)" -eq 0 ]
check "the slow backend has not failed" [ "$(metric sluice_backend_ejections_total)" -eq 0 ]
check "and is up" up
check "no exchange is left" within 10 eval '[ "$(stat_sum exchanges_used)" -eq 0 ]'

# POST to a route without `idempotent`: no second copy. The client goes instead.
before=$(metric sluice_hedges_total)
for _ in 1 2 3 4; do cl curl -s --max-time 1 -d x -o /dev/null "$URL/get"; done
check "a POST has no second copy" [ "$(metric sluice_hedges_total)" -eq "$before" ]

# The quick backend is stopped: both copies wait while the configuration changes, and the slow backend ends.
kill -STOP "${pid_of[quick]}"
for n in 1 2 3 4; do
	cl curl -s --max-time 80 --data-binary "@$D/body" -H 'Expect:' -o "$D/reply$n" -w '%{http_code}\n' "$URL/direct" >"$D/code$n" &
	eval "asked$n=$!"
done
copies() { admin /metrics | grep -E "^sluice_(hedge|retr|backend_(outstanding|up|slots|silent))"; [ "$(metric sluice_hedges_total)" -ge $((before + 4)) ]; }
check "second copies wait" within 10 copies
sed -i 's/max_latency = 10s/max_latency = 11s/' "$D/gw.conf"
check "a reload with both outstanding" gw "$SLUICE" reload
kill_backend slow
kill -CONT "${pid_of[quick]}"
answered() {
	for n in 1 2 3 4; do
		eval "wait \$asked$n"
		[ "$(cat "$D/code$n")" = 200 ] && cmp "$D/body" "$D/reply$n" || return 1
	done
}
check "each is answered once, by the one that lives" answered
check "without a second backend there is no copy" posts /batched 3
finish
