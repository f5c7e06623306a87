#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume: alone
# Handshakes with RSA-2048 are begun at full speed and never finished: connected clients keep their throughput, new ones get
# their turn, memory is bounded.
#
# The attacker has a CPU of its own, as in hostile/flood. Clients, the worker and, for the worst case, the handshake threads
# share the other. Clients keep the share of throughput that the threads leave: requests per second of the worker's CPU time,
# times the part of the time that the threads did not take.
. "$(dirname "$0")/../lib.sh"

arena
sources=()
for i in {11..14}; do
	ip -n "$C" addr add "10.99.0.$i/24" dev "$CIF"
	sources+=("10.99.0.$i")
done
processors=$(taskset -pc $$ | sed 's/.*: //')
ours=${processors%%[-,]*} its=${processors##*[-,]}
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=a.example -keyout "$D/a.key" -out "$D/a.pem" 2>/dev/null
chown "$RUN_AS" "$D/a.key" && chmod 600 "$D/a.key"
gateway <<EOC
interface $GIF { }
workers { cpus = { $ours } }
listener safe { address = "$V4" port = 8443 tls { certificate = "$D/a.pem" key = "$D/a.key" } }
route "/" { respond { status = 200 body = "hello\n" } }
EOC
rss() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$(gateway_child)/status"; }
tasks_of() { # NAME: the gateway's threads that are called so
	grep -l "^$1" "/proc/$(gateway_child)"/task/*/comm
}
spent_ns() { # NAME: processor time of those
	local comm sum=0
	for comm in $(tasks_of "$1"); do sum=$((sum + $(cut -d ' ' -f 1 "${comm%comm}schedstat"))); done
	echo $sum
}
# steady: requests per second of the worker's processor and of time that handshakes left, and p99 in us, of 16 connections,
# into $rate and $p99; no error
steady() {
	local before worker handshakes from left
	before=$(metric sluice_tls_full_total)
	nsenter --net="/run/netns/$C" taskset -c "$ours" wrk -t 1 -c 16 -d 120s --latency --timeout 20s "https://$V4:8443/" >"$D/wrk" 2>&1 &
	pid_of[wrk]=$!
	within 30 eval '[ $(($(metric sluice_tls_full_total) - before)) -ge 16 ]' || { echo "the connections are not there"; return 1; }
	[ $# -eq 0 ] || flood_begins || return 1
	before=$(metric sluice_requests_total) worker=$(spent_ns worker) handshakes=$(spent_ns handshake) from=$(date +%s%N)
	sleep 2
	before=$(($(metric sluice_requests_total) - before)) worker=$(($(spent_ns worker) - worker))
	left=$((1000 - 1000 * ($(spent_ns handshake) - handshakes) / ($(date +%s%N) - from)))
	rate=$((before * 1000000 / (worker / 1000) * left))
	rate=$((rate / 1000))
	kill -INT "${pid_of[wrk]}" # it says what there was so far
	wait "${pid_of[wrk]}"
	unset "pid_of[wrk]"
	cat "$D/wrk"
	echo "$before requests, worker $((worker / 1000000)) ms, handshakes left $left per mille"
	p99=$(awk '$1 == "99%" { v = $2 + 0; u = $2; gsub(/[0-9.]/, "", u); printf "%d", v * (u == "s" ? 1e6 : u == "ms" ? 1000 : 1) }' "$D/wrk")
	[ "$rate" -gt 0 ] && [ "${p99:-0}" -gt 0 ] && ! grep -qE 'Non-2xx|Socket errors' "$D/wrk"
}
flood_begins() {
	nsenter --net="/run/netns/$C" taskset -c "$its" "$BUILD/tests/netns/hello" "$V4" 8443 120 1024 "${sources[@]}" >"$D/flood" &
	pid_of[flood]=$!
	within 30 eval '[ "$(stat_sum tls.queued)" -gt 64 ]' || { echo "the flood does not get under way"; return 1; }
}
newcomers() {
	local i
	for i in 1 2 3 4 5; do
		[ "$(cl curl -sSk --max-time 20 "https://$V4:8443/")" = hello ] || return 1
	done
}
in_flood() {
	local status=0
	steady flooded || status=1
	newcomers || { echo "a newcomer gets no turn"; status=1; }
	now=$(rss)
	[ "$now" -le "${most:-0}" ] || most=$now
	kill -0 "${pid_of[flood]}" || { echo "the flood ended too early"; status=1; }
	kill -INT "${pid_of[flood]}"
	wait "${pid_of[flood]}"
	unset "pid_of[flood]"
	cat "$D/flood"
	within 30 eval '[ "$(stat_sum tls.queued)" -eq 0 ]' || { echo "its handshakes stay"; status=1; }
	return $status
}

for comm in $(tasks_of handshake); do
	task=${comm%/comm}
	taskset -pc "$ours" "${task##*/}" >/dev/null
done
check "connections that are there already" steady
at_first=$(rss)
for _ in 1 2 3; do
	check "undisturbed" steady
	quiet="$rate $p99"
	check "flooded: no error, and newcomers get their turn" in_flood
	echo "$quiet $rate $p99 $(cat "$D/flood")" >>"$D/turns"
done
# ratio COLUMN COLUMN: the median of their ratios, in percent
ratio() { awk -v a="$1" -v b="$2" '{ printf "%d\n", 100 * $a / $b }' "$D/turns" | sort -n | sed -n 2p; }
sed "s|^|    $NAME: rate and p99 in us, undisturbed, flooded: |" "$D/turns"
# Neither ratio is asserted, because other processes affect it; bench/tls measures them.
throughput=$(ratio 3 1) slower=$(ratio 4 2)
echo "    $NAME: of the undisturbed throughput $throughput %, of its p99 $slower %"
shed=$(metric 'sluice_tls_ends_total{worker="0",reason="shed"}')
check "what is too much is shed, by name" [ "$shed" -gt 0 ]
echo "    $NAME: the process grew by $(((most - at_first) / 1024)) MiB, $shed shed"
check "memory is bounded" [ "$((most - at_first))" -le $((128 << 10)) ]
finish
