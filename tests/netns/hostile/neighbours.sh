#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients at some addresses hold, delay and repeat requests, and a client at another one does not notice. The time-outs are
# longer than the attacks, so they do not help, and the attacks use more than there is. These run for seconds; hostile/ipv4
# and hostile/ipv6 run all of them for longer, and print latencies.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# A client's kernel reports once that its process was killed. If that is lost, two time-outs of the gateway end the
# connection: one for the rest of the request, one for the reply that is not read.
LEFT_WITHIN=150

hostile_arena() {
	local i
	arena
	for i in 9 {10..20}; do
		ip -n "$C" addr add "10.99.0.$i/24" dev "$CIF"
		cl ip -6 route add local "fd99:0:0:$i::/64" dev lo
	done
	ip -n "$G" route add fd99::/32 via fd99::2 dev "$GIF"
	GATEWAY_MAC=$(ip -n "$G" -j link show dev "$GIF" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["address"])')
	export GATEWAY_MAC BUILD
	backend echo echo
	gateway <<CONFIG
interface $GIF { }
listener v4 { address = "$V4" port = 8080 protocols = {http, datagram} }
listener v6 { address = "$V6" port = 8080 protocols = {http, datagram} }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo datagram_service = 1 }
route "/" { respond { status = 200 body = "hello\n" } }
limits {
	max_connections = 4096 max_body = 8m
	header_timeout = 60s body_timeout = 60s send_timeout = 60s idle_timeout = 60s
}
memory { frames = 32m }
CONFIG
}

counters() { admin /metrics | grep -E '^sluice_(ended|address_limits|front_errors|drops|tcp_|exchanges|responses|outcomes|errors)[a-z_]*(\{|_total)'; }

# hostile FAMILY SECONDS ATTACK...: attacks or groups of them, all at once. Shows the gateway's counters if it fails.
hostile() {
	local family=$1 seconds=$2 failed_before=$failed
	shift 2
	counters >"$D/counters"
	check "$* over IPv$family: all requests of another client are answered" cl timeout 400 python3 "$here/hostile/client.py" "$family" "$seconds" "$(gateway_child)" "$G" "$@"
	grep -h "^    hostile" "$D/out"
	[ "$failed" -eq "$failed_before" ] || { counters | grep -vxFf "$D/counters"; grep "client fd99:0:0:9:\|client 10.99.0.9[: ]" "$D/gw.log"; } | sed 's/^/     | /'
	check_leftovers
}

many_skipped() { metric sluice_tcp_sack_scans_skipped_total; [ "$(metric sluice_tcp_sack_scans_skipped_total)" -gt 10000 ]; }

# hostile_groups FAMILY: all attacks, for so long that each of them comes to its end, and what they are counted as.
hostile_groups() {
	local group
	for group in floods readers requests places; do
		hostile "$1" "${HOLD:-20}" "$group"
	done
	check "floods of HTTP/2 are counted" eval '[ "$(metric "sluice_front_errors_total{worker=\"0\",error=\"h2_flood\"")" -gt 0 ]'
	# A busy host sends fewer in that time.
	for _ in 1 2 3 4 5; do many_skipped >"$D/said" || hostile "$1" "${HOLD:-20}" SackFlood; done
	check "acknowledgements without news are" many_skipped
}

[ "$NAME" = hostile/neighbours ] || return 0
hostile_arena
hostile 4 3 RapidReset Settings WindowZero SlowReader SlowBody
hostile 6 3 MadeYouReset SlowHead HalfOpen Idle
check "who it was is in the log" grep -qE "client (fd99:0:0:1[0-9]::/64|10\.99\.0\.1[0-9])(:| has)" "$D/gw.log"
check "and never the other one" eval '! grep -q "client fd99:0:0:9:\|client 10.99.0.9[: ]" "$D/gw.log"'
# refused ADDRESSES: whether /stats lists one that matches.
refused() {
	admin /stats | python3 -c '
import json, re, sys
listed = [a for w in json.load(sys.stdin)["workers"] for a in w["core"]["refused_addresses"]]
print(listed)
sys.exit(not any(re.fullmatch(sys.argv[1], a["address"]) and len(a) > 1 for a in listed))' "$1"
}
check "and in the statistics, with what he was refused" refused 'fd99:0:0:1[0-9]::/64|10\.99\.0\.1[0-9]'
check "where the other one is not either" eval '! refused "fd99:0:0:9::/64|10\.99\.0\.9"'
for metric in address_limits_total ended_for_others_total request_windows_shrunk_total request_reads_paused_total; do
	check "$metric is counted" eval '[ "$(metric sluice_$metric)" -gt 0 ]'
done
finish
