#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Agents of the gateway's own: how many, where they run, and how they come back.
. "$(dirname "$0")/../lib.sh"

arena
gw /usr/bin/python3 "$here/agent/server.py" 127.0.0.1:8000 >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
mapfile -t cpus < <(python3 -c 'import os
cpus = sorted(os.sched_getaffinity(0))
print(cpus[-1], cpus[0], sep="\n")')
gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
pool a { backend a { endpoint = "http://127.0.0.1:8000" } }
route "/" { pool = a }
agents { count = 2 cpus = {${cpus[0]}, ${cpus[1]}} }
admin { address = "127.0.0.1" port = 9900 }
CONF

# agent N: its process
agent() { gw "$SLUICE" status -c "$D/gw.conf" | sed -nE "s/^agent $1: process ([0-9]+), .*/\1/p"; }
two() { [ -n "$(agent 0)" ] && [ -n "$(agent 1)" ] && [ "$(agent 0)" != "$(agent 1)" ]; }
check "two agents" within 20 two
pinned() { [ "$(taskset -cp "$(agent "$1")" | sed 's/.*: //')" = "${cpus[$1]}" ]; }
check "the first is pinned to its processor" pinned 0
check "and the second to its own" pinned 1
served() { [ "$(cl curl -sS -m 5 "http://$V4:8080/bytes?3")" = 012 ]; }
check "they serve" within 20 served

# The back-off ends with a life of five seconds, so the kills follow each other, however slow the host is.
killed() {
	kill -KILL "$1"
	within 20 eval "! kill -0 $1 2>/dev/null"
}
told=()
# Its process dies; what the status says until there is another.
kill_and_look() {
	local pid text until
	pid=$(agent 0)
	killed "$pid" || return 1
	until=$((${EPOCHREALTIME/./} + 20000000))
	while [ "${EPOCHREALTIME/./}" -lt $until ]; do
		text=$(gw "$SLUICE" status -c "$D/gw.conf" | sed -n 's/^agent 0: //p')
		case $text in
		"starts again after "*) told+=("${text%% ms*}") ;;
		"process $pid,"*) ;;
		process*) return 0 ;;
		esac
	done
	return 1
}
grows() {
	local i waits
	for ((i = 0; i < 7; i++)); do kill_and_look || return 1; done
	waits=$(sed -nE 's/.*agent 0 died of signal 9; it starts again in ([0-9]+) ms, for the [0-9]+\. time$/\1/p' "$D/gw.log" | tr '\n' ' ')
	echo "waits: $waits; told: ${told[*]}"
	# It doubles from the second on.
	[ "$waits" = "0 50 100 200 400 800 1600 " ]
}
check "each end of an agent doubles the wait for the next one" grows
says() {
	told=()
	kill_and_look
	echo "told: ${told[*]}"
	[ "${told[0]:-}" = "starts again after 3200" ] && grep -q 'agent 0 died of signal 9; it starts again in 3200 ms, for the 8. time' "$D/gw.log"
}
check "the status says how long it waits, as the log does" says
check "and how often" [ "$(gw "$SLUICE" status -c "$D/gw.conf" | grep -cE '^agent 0: process [0-9]+, 8 restarts$')" = 1 ]
check "the other one has not been disturbed" [ "$(gw "$SLUICE" status -c "$D/gw.conf" | grep -cE '^agent 1: process [0-9]+, 0 restarts$')" = 1 ]
check "the one that came back is pinned again" pinned 0
check "and serves" within 20 served
well() { sleep 5.5; killed "$(agent 0)" && within 20 grep -q 'agent 0 died of signal 9; it starts again in 0 ms, for the 9. time' "$D/gw.log"; }
check "one that has lived well starts at once" well
check "and serves" within 20 served
finish
