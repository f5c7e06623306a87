#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ten thousand connections at once, held open, with requests on all of them.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } max_queue = 20000 }
route "/echo" { pool = echo }
limits { max_connections = 20000 max_exchanges = 20000 address_connections = 1 address_exchanges = 1 address_reading = 1 idle_timeout = 120s header_timeout = 60s }
EOF

# hold ROUNDS: that many requests on each; $MANY connections stay open until let_go.
hold() {
	rm -f "$D/many"
	HOLD=1 nsenter --net="/run/netns/$C" "$BUILD/tests/netns/many" "$V4" 8080 "$MANY" "$1" >"$D/many" 2>&1 &
	pid_of[many]=$!
	within 150 grep -qs answers "$D/many"
}
let_go() {
	kill "${pid_of[many]}"
	wait "${pid_of[many]}" 2>/dev/null
	unset "pid_of[many]"
}
rss() { awk '$1 == "VmRSS:" { print $2 * 1024 }' "/proc/$(gateway_child)/status"; }

# Cost of an idle connection: by the sizes of its structures, and as the kernel sees it. Frames are resident from the
# start, and one request has touched the rest of what serving takes.
check "a first request" cl curl -sf --max-time 10 "http://$V4:8080/echo"
rss_before=$(rss)
hold 0
each=$((($(rss) - rss_before) / MANY))
stated=$(($(stat_sum conn_bytes)))
echo "    $NAME: an idle connection takes $stated bytes; the process grew by $each for each of $MANY"
check "an idle connection takes at most 512 bytes in all" [ "$stated" -gt 0 -a "$stated" -le 512 ]
check "status says so" eval 'gw "$SLUICE" status | grep -q "idle ones take $stated bytes"'
# A sanitizer keeps books of its own.
[ "${SL_SANITIZED:-}" = 1 ] || check "and the process does not grow by much more" [ "$each" -le 600 ]
let_go
check "all of them are gone" within 30 leftovers

hold 3
answered() { grep -q "^$MANY connections, $((3 * MANY)) answers$" "$D/many" || { cat "$D/many"; false; }; }
check "three requests on each of $MANY connections are answered" answered
check "all are still open at the gateway" eval '[ "$(stat_sum tcp.conns)" -ge "$MANY" ]'
check "an idle connection costs no frame" within 30 leftovers frames
check "a newcomer is served" cl curl -sf --max-time 10 "http://$V4:8080/echo"
let_go
finish
