#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SYNs from ever new addresses, from a second namespace on the same wire and as fast as it sends: clients see no error,
# and the gateway's memory does not grow.
. "$(dirname "$0")/lib.sh"
gcc -O2 -std=gnu17 -D_GNU_SOURCE -o "$D/stack_flood" "$here/stack_flood.c" || exit 1
F=slf$$
trap 'ip netns del $F 2>/dev/null; clean_up' EXIT

arena
# The attacker shares the client's end of the wire.
ip netns add "$F"
ip -n "$C" link add link "$CIF" name fl0 netns "$F" type macvlan mode bridge || exit 1
ip -n "$F" link set fl0 up
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
listener v6 { address = "$V6" port = 8080 }
route "/" { reply = 200 body = "hello\n" }
limits { max_half_open = 1024 }
EOF
mac=$(ip -n "$G" -j link show dev "$GIF" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["address"])')

# rate_of ADDRESS: requests per second into $rate; fails on any error that a client sees.
rate_of() {
	cl wrk -t 2 -c "$WRK_CONNS" -d 2s --timeout 10s "http://$1:8080/" >"$D/wrk" 2>&1
	cat "$D/wrk"
	rate=$(awk '$1 == "Requests/sec:" { printf "%d", $2 }' "$D/wrk")
	[ "${rate:-0}" -gt 0 ] && ! grep -qE 'Non-2xx|Socket errors' "$D/wrk"
}
# The same in a flood: rate_in_flood ADDRESS ADDRESS-FOR-THE-FLOOD NICENESS. Newcomers are who it is to keep out.
rate_in_flood() {
	local status flood
	nsenter --net="/run/netns/$F" nice -n "$3" timeout 60 "$D/stack_flood" fl0 "$mac" "$2" 8080 60 >"$D/flood" &
	flood=$!
	pid_of[flood]=$flood
	sleep 0.3
	rate_of "$1" && newcomers "$1"
	status=$?
	kill -0 "$flood" || { echo "the flood ended too early"; status=1; }
	kill -INT "$flood"
	wait "$flood"
	unset "pid_of[flood]"
	cat "$D/flood"
	return $status
}
newcomers() {
	local i
	for i in 1 2 3 4 5; do
		[ "$(cl curl -sS -g --max-time 10 "http://$1:8080/")" = hello ] || return 1
	done
}
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
rss() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$gateway_pid/status"; }

# turns TEXT TIMES ADDRESS-FOR-WRK ADDRESS-FOR-THE-FLOOD: undisturbed and flooded in turn. An attacker has a machine of
# its own, but here it takes the gateway's and the client's CPU time: so once with its share, and once with what they leave.
turns() {
	local alone=() fair=() left=() i fair_flood
	for ((i = 0; i < $2; i++)); do
		check "$1: undisturbed" rate_of "$3"
		alone+=("$rate")
		check "$1: no client sees an error" rate_in_flood "$3" "$4" 0
		fair+=("$rate")
		fair_flood=$(cat "$D/flood")
		check "$1: no client sees an error, with a polite flood" rate_in_flood "$3" "$4" 19
		left+=("$rate")
		[ -n "${rss_before:-}" ] || rss_before=$(rss)
	done
	python3 - "$NAME: $1" "$(median "${alone[@]}")" "$(median "${fair[@]}")" "$fair_flood" \
		"$(median "${left[@]}")" "$(cat "$D/flood")" <<'EOF'
import sys
name, alone, fair, fair_flood, left, left_flood = sys.argv[1:]
print(f"    {name}: {alone} requests/s alone; {fair} in {fair_flood}: ratio {int(fair) / int(alone):.2f};"
      f" {left} in {left_flood} at nice 19: ratio {int(left) / int(alone):.2f}")
EOF
}
turns IPv4 2 "$V4" "$V4"
turns IPv6 1 "[$V6]" "$V6"
cookies=$(stat_sum tcp.syn_cookies_sent) taken=$(stat_sum tcp.syn_cookies_ok) rss_after=$(rss)
echo "    $NAME: $cookies cookies sent, $taken came back;" \
	"$rss_before KiB resident after the first flood, $rss_after after the last"
check "cookies were sent, and came back" [ "$cookies" -gt 1000 -a "$taken" -gt 0 ]
check "half-open connections stay within their bound" [ "$(stat_sum tcp.half_open)" -le 1024 ]
check "memory does not grow" [ "$rss_after" -le $((rss_before + 2048)) ]
check "no frame is lost" within 15 leftovers frames
# The half-open ones that nobody will complete last for a minute: finish would wait for them.
gateway_stop
exit_with_counts
