#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume: alone
# SYNs from ever new addresses, from a second namespace on the same wire: clients see no error, keep more than half of their
# throughput, and the gateway's memory does not grow.
#
# The flood has two SYNs for each request that is served undisturbed. On a busy host the gateway gets less CPU time, and the
# flood must be smaller by as much.
#
# The flood has a CPU of its own, as a real attacker has; client and gateway share the other. Wire and cache are shared all
# the same: control runs send the same frames to an address that the gateway does not serve, so the kernel drops them. The
# difference is the gateway's own cost.
. "$(dirname "$0")/../lib.sh"
F=slf$$
spaces+=("$F")

arena
# The attacker shares the client's end of the wire.
ip netns add "$F"
ip -n "$C" link add link "$CIF" name fl0 netns "$F" type macvlan mode bridge || exit 1
ip -n "$F" link set fl0 up
processors=$(taskset -pc $$ | sed 's/.*: //')
ours=${processors%%[-,]*} its=${processors##*[-,]}
gateway <<EOF
interface $GIF { }
workers { count = 1 cpus = { $ours } }
listener v4 { address = "$V4" port = 8080 }
listener v6 { address = "$V6" port = 8080 }
route "/" { respond { status = 200 body = "hello\n" } }
limits { max_half_open = 1024 }
EOF
mac=$(ip -n "$G" -j link show dev "$GIF" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["address"])')

# rate_of ADDRESS: requests per second into $rate; fails on any error that a client sees. Longer than the second after
# which a client repeats a SYN that the flooded wire has lost. Where it loses the repeated ones too, as it did once on a slow
# host, that is no error but a rate of nothing.
rate_of() {
	cl taskset -c "$ours" wrk -t 1 -c "$WRK_CONNS" -d 3s --timeout 10s "http://$1:8080/" >"$D/wrk" 2>&1
	cat "$D/wrk"
	rate=$(awk '$1 == "Requests/sec:" { printf "%d", $2 }' "$D/wrk")
	[ -n "$rate" ] && ! grep -qE 'Non-2xx|Socket errors' "$D/wrk"
}
# The same during a flood: rate_in_flood ADDRESS ADDRESS-FOR-THE-FLOOD. The flood may keep new clients out.
rate_in_flood() {
	local status flood cookies
	cookies=$(stat_sum tcp.syn_cookies_sent)
	nsenter --net="/run/netns/$F" taskset -c "$its" "$BUILD/tests/netns/flood" fl0 "$mac" "$2" 8080 60 \
		$((alone < 25000 ? 50000 : 2 * alone)) >"$D/flood" &
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
	handled=$(($(stat_sum tcp.syn_cookies_sent) - cookies))
	return $status
}
newcomers() {
	local i
	for i in 1 2 3 4 5; do
		[ "$(cl curl -sS -g --max-time 30 "http://$1:8080/")" = hello ] || return 1
	done
}
rss() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$(gateway_child)/status"; }

# turns TEXT TIMES ADDRESS-FOR-WRK ADDRESS-FOR-THE-FLOOD UNUSED-ADDRESS: undisturbed, control and flooded in turn, so
# that other load of the machine affects all three.
turns() {
	local i alone control
	for ((i = 0; i < $2; i++)); do
		check "$1: undisturbed" rate_of "$3"
		alone=$rate
		[ "$alone" -gt 0 ] || say_failed "$1: nobody is served, undisturbed"
		check "$1: control" rate_in_flood "$3" "$5"
		control=$rate
		check "$1: no client sees an error" rate_in_flood "$3" "$4"
		echo "$alone $control $rate $handled $(cat "$D/flood")" | tee -a "$D/turns" >>"$D/turns $1"
		[ -n "${rss_before:-}" ] || rss_before=$(rss)
	done
	medians "$1" "$D/turns $1"
}
medians() {
	python3 - "$NAME: $1" "$2" <<'EOF'
import statistics, sys
turns = [[float(v) if v.isdigit() else v for v in line.split()] for line in open(sys.argv[2])]
def median(f):
    return statistics.median(map(f, turns))
print(f"    {sys.argv[1]}: {median(lambda t: t[0]):.0f} requests/s alone, {median(lambda t: t[1]):.0f} in the control,"
      f" {median(lambda t: t[2]):.0f} in a flood of {median(lambda t: t[6]):.0f} SYNs/s,"
      f" {100 * median(lambda t: t[3] / t[4]):.0f} % answered by cookies;"
      f" ratio {median(lambda t: t[2] / t[0]):.2f} to alone, {median(lambda t: t[2] / max(t[1], 1)):.2f} to the control")
EOF
}
turns IPv4 2 "$V4" "$V4" 10.99.0.77
turns IPv6 2 "[$V6]" "$V6" fd99::77
medians both "$D/turns" # printed, not asserted: the ratio depends on other processes
cookies=$(stat_sum tcp.syn_cookies_sent) taken=$(stat_sum tcp.syn_cookies_ok) rss_after=$(rss)
echo "    $NAME: $cookies cookies sent, $taken came back;" \
	"$rss_before KiB resident after the first flood, $rss_after after the last"
check "cookies were sent, and came back" [ "$cookies" -gt 1000 -a "$taken" -gt 0 ]
check "half-open connections stay within their bound" [ "$(stat_sum tcp.half_open)" -le 1024 ]
check "memory does not grow" [ "$rss_after" -le $((rss_before + 2048)) ]
# A client's kernel says once that its process has ended; where the wire loses that, repeating the reply tells.
check "no frame is lost" within 90 leftovers frames
# Half-open connections last for a minute: finish would wait for them.
gateway_stop
exit_with_counts
