#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ten thousand connections at once, held open, with requests on all of them.
. "$(dirname "$0")/lib.sh"

arena
backend echo echo
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { bound = 10s } backend a { endpoint = "shm://$D/echo.sock" } max_queue = 20000 }
route "/echo" { pool = echo }
limits { max_connections = 20000 max_exchanges = 20000 idle_timeout = 120s header_timeout = 60s }
EOF

HOLD=1 nsenter --net="/run/netns/$C" "$BUILD/tests/netns/many" "$V4" 8080 "$MANY" 3 >"$D/many" 2>&1 &
pid_of[many]=$!
answered() { grep -q "^$MANY connections, $((3 * MANY)) answers$" "$D/many" || { cat "$D/many"; false; }; }
within 150 grep -q answers "$D/many"
check "three requests on each of $MANY connections are answered" answered
check "all are still open at the gateway" eval '[ "$(stat_sum tcp.conns)" -ge "$MANY" ]'
check "an idle connection costs no frame" within 5 leftovers frames
check "the cost of a connection is exported" eval '[ "$(stat_sum conn_bytes)" -gt 0 ]'
check "a newcomer is served" cl curl -sf --max-time 10 "http://$V4:8080/echo"
kill "${pid_of[many]}"
wait "${pid_of[many]}" 2>/dev/null
unset "pid_of[many]"
finish
