#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server that takes requests and answers none gets no new ones until it answers.
. "$(dirname "$0")/../lib.sh"

arena
mkdir "$D/state"
chmod 777 "$D/state"
n=0
for s in a b; do
	n=$((n + 1))
	nsenter --net="/run/netns/$server_netns" /usr/bin/python3 "$here/agent/health_server.py" "$server_ip:800$n" $s "$D/state" >"$D/$s.log" 2>&1 </dev/null &
	pid_of[$s]=$!
	within 30 grep -qs listening "$D/$s.log" || say_failed "the server $s does not start"
done
pool() { echo "pool $1 { backend a { endpoint = \"http://$server_ip:8001\"$server_way } backend b { endpoint = \"http://$server_ip:8002\"$server_way } $2 }"; }
gateway <<CONF
interface "$GIF" { }
$server_keys
listener v4 { address = "$V4" port = 8080 }
$(pool two "progress = 3s")
$(pool direct "progress = 3s batch { policy = direct }")
route "/streamed" { pool = two }
route "/direct" { pool = direct stream = no }
admin { address = "127.0.0.1" port = 9900 }
CONF

ask() { cl curl -s -m 60 "http://$V4:8080$1"; }
metric() { gw curl -s http://127.0.0.1:9900/metrics | awk -v n="$1" -v p="pool=\"$2\",backend=\"$3\"" 'index($0, n "{") == 1 && index($0, p) { s += $2 } END { print s + 0 }'; }
# Requests in the background, until one of them waits at the stopped server for long enough.
is_silent() {
	ask "$1" >>"$D/late" &
	asked+=($!)
	[ "$(metric sluice_backend_silent "$2" a)" = 1 ]
}
answers() {
	local seen
	for _ in {1..10}; do seen+=$(ask "$1"); done
	[ "$seen" = "$(printf 'b%.0s' {1..10})" ]
}
for p in streamed/two direct/direct; do
	path=/${p%/*} pool=${p#*/} asked=()
	: >"$D/late"
	for _ in 1 2 3; do within 60 eval "[ \"\$(ask $path)\" = a ]"; done # its usual time
	kill -STOP "${pid_of[a]}"
	check "$path: the stopped server is found silent" within 60 is_silent "$path" "$pool"
	check "$path: all requests go to the other one" answers "$path"
	check "status says so" eval "gw '$SLUICE' status -c '$D/gw.conf' | grep '$pool/a.*silent'"
	kill -CONT "${pid_of[a]}"
	ends() { wait "${asked[@]}"; [ "$(wc -c <"$D/late")" = ${#asked[@]} ] && grep -q a "$D/late"; }
	check "requests that waited are answered" ends
	[ "$pool" = two ] || continue
	check "$path: the server gets requests again" within 60 eval "[ \"\$(ask $path)\" = a ] && [ \"\$(metric sluice_backend_silent $pool a)\" = 0 ]"
	check "one silence is counted" eval "[ \"\$(metric sluice_backend_silences_total $pool a)\" = 1 ]"
done
check "begin and end are logged" eval "[ \"\$(grep -c 'a: requests wait, and none' '$D/gw.log')\" = 2 ] && [ \"\$(grep -c 'a: gets requests again' '$D/gw.log')\" = 2 ]"

finish
