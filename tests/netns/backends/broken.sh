#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A backend's own connection breaks while the backend lives. The link begins again by `bootstrap`. Requests under way are
# repeated elsewhere where that is allowed. After a while the link has a connection of its own again. tcp and shared
# memory stand in for queue pairs and virtual connections.
. "$(dirname "$0")/../lib.sh"

arena
head -c 32 /dev/urandom | base64 >"$D/key"
chgrp "$(id -g "$RUN_AS")" "$D/key"
chmod 640 "$D/key"
in_group nsenter --net="/run/netns/$G" "$BUILD/echo" --listen "shm://$D/a.sock,tcp://127.0.0.1:7400" --key-file "$D/key" \
	>>"$D/a.log" 2>&1 </dev/null &
pid_of[a]=$!
check "the backend listens" within 10 test -S "$D/a.sock"
backend b echo
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 half_close = answer }
limits { max_rc_qps = 1 }
pool a {
	batch { max_latency = 10s }
	backend x { endpoint = "tcp://127.0.0.1:7400" bootstrap = "shm://$D/a.sock" key_file = "$D/key" }
	backend y { endpoint = "shm://$D/b.sock" }
}
route "/a" { pool = a deadline = 30s idempotent = yes }
EOF

answers() { [ "$(cl curl -sf --max-time 5 -d "$1" "http://$V4:8080/a")" = "$1" ]; }
sum_of() { metric "sluice_backend_$1_total"; }
own_cnt() { gw ss -tnH state established dport = :7400 | wc -l; }
has_own() { [ "$(own_cnt)" -eq 1 ]; }
break_own() { gw ss -KtnH state established dport = :7400 >/dev/null 2>&1; }
# When the log last said so, in ms.
said_ms() { date -d "$(grep "$1" "$D/gw.log" | tail -1 | cut -d' ' -f1)" +%s%3N; }
waited() { [ $(($(said_ms 'x: worker 0 switched to the primary') - $(said_ms '/x is up for worker'))) -ge 900 ]; }
begun() { grep -c '/x is up for worker' "$D/gw.log"; }

check "it answers" within 30 answers hello
check "by what it began with" [ "$(own_cnt)" -eq 0 ]
# One request with its reply makes the link busy (PROMO_BYTES), however slow the host is.
echo 'wrk.method = "POST" wrk.body = string.rep("x", 40000)' >"$D/post.lua"
nsenter --net="/run/netns/$C" wrk -t1 -c8 --timeout 20s -d60s -s "$D/post.lua" "http://$V4:8080/a" >"$D/wrk" &
load=$!
check "busy, it gets a connection of its own" within 20 eval 'has_own && [ "$(sum_of promotions)" -eq 1 ]'
break_own
if has_own && ! within 2 eval '[ "$(begun)" -gt 1 ]'; then
	echo "    skip $NAME: this kernel breaks no connection (CONFIG_INET_DIAG_DESTROY)"
	kill "$load"
	finish
	exit
fi
check "which breaks: it begins again" within 10 eval '[ "$(begun)" -eq 2 ]'
check "by its first endpoint" eval 'grep "/x is up for worker" "$D/gw.log" | tail -1 | grep -q "shm "'
check "and answers" answers again
check "after a while it has one again" within 20 eval 'has_own && [ "$(sum_of promotions)" -eq 2 ]'
check "and not at once" waited
within 20 eval "! kill -INT $load 2>/dev/null"
wait "$load"
check "no request was lost, for all may be asked again" eval "cat $D/wrk; ! grep -q 'Non-2xx\|Socket errors' $D/wrk && grep -q '[1-9][0-9]* requests in' $D/wrk"
check "the backend is the same one" kill -0 "${pid_of[a]}"
check "no reply came twice" [ "$(sum_of late_replies)" -eq 0 ]
check "it answers to the end" answers end
finish
