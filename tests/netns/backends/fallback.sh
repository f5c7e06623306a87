#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A backend served by its fallback migrates to its own endpoint as soon as that is there, with all requests under way.
# It does not if another process listens there. A backend served by a bootstrap endpoint migrates when it is loaded.
. "$(dirname "$0")/../lib.sh"

arena
head -c 32 /dev/urandom | base64 >"$D/key"
chgrp "$(id -g "$RUN_AS")" "$D/key"
chmod 640 "$D/key"

# listen NAME ENDPOINT: a backend beside the gateway
listen() {
	in_group nsenter --net="/run/netns/$G" "$BUILD/echo" --listen "$2" --key-file "$D/key" >>"$D/$1.log" 2>&1 </dev/null &
	pid_of[$1]=$!
}
hide() { mv "$D/own.sock" "$D/hidden.sock"; }
show() { mv "$D/hidden.sock" "$D/own.sock"; }

listen first "shm://$D/own.sock,tcp://127.0.0.1:7471"
check "the backend listens" within 10 test -S "$D/own.sock"
hide
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool p {
	batch { max_latency = 10s }
	backend a { endpoint = "shm://$D/own.sock" fallback = "tcp://127.0.0.1:7471" key_file = "$D/key" }
}
route "/" { pool = p deadline = 20s }
EOF

on_fallback() { [ "$(metric 'sluice_backend_on_fallback{worker="0",pool="p"')" -eq "$1" ]; }
is_up() { [ "$(metric 'sluice_backend_up{worker="0",pool="p"')" -eq 1 ]; }
answers() { [ "$(cl curl -sf --max-time 5 -d hello "http://$V4:8080/")" = hello ]; }
check "the fallback serves" within 30 answers
check "the metric says so" within 10 on_fallback 1
way='worker 0 uses its fallback tcp://127.0.0.1:7471'
check "so does the log" grep -q "p/a: shm://.*own.sock: .*; $way" "$D/gw.log"

# Under load, with a body that takes longer than all of it.
head -c 6000000 /dev/urandom >"$D/body"
cl curl -sf --max-time 60 --limit-rate 600k --data-binary "@$D/body" -H 'Expect:' -o "$D/reply" "http://$V4:8080/" &
upload=$!
cl wrk -t1 -c8 -d8s --timeout 20s "http://$V4:8080/" >"$D/wrk" &
load=$!
sleep 1
show
check "once its own endpoint is there, the backend is served by that" within 20 on_fallback 0
check "the log says so" grep -q 'p/a: worker 0 switched to the primary endpoint, shm .*own.sock' "$D/gw.log"
check "and the status" eval 'gw "$SLUICE" status | grep -q "p/a, worker 0: up.*shm .*own.sock"'
wait $load
cat "$D/wrk"
check "no request was lost" eval '! grep -q "Non-2xx\|Socket errors" "$D/wrk" && grep -q "[1-9][0-9]* requests in" "$D/wrk"'
check "nor a byte of what was on its way" eval 'wait $upload && cmp "$D/body" "$D/reply"'
check "no second connection was begun" test "$(grep -c 'p/a is up for\|p/a is down' "$D/gw.log")" -eq 0
check "it answers" answers

kill_backend first
rm -f "$D/own.sock"
listen second "tcp://127.0.0.1:7471"
check "by the fallback again" within 30 on_fallback 1
check "which answers" within 30 answers
listen third "shm://$D/own.sock"
check "of another process the log speaks" within 60 grep -q 'own.sock answers, but is another process than tcp://127.0.0.1:7471; worker 0 does not switch' "$D/gw.log"
check "the fallback goes on serving" on_fallback 1
check "and answers" answers
kill_backend second
check "when it ends, the other one is used" within 30 eval 'is_up && on_fallback 0'
check "which answers, too" within 30 answers

# One to begin with: a connection that begins by it goes on by the backend's own when it has enough to do.
listen fourth "shm://$D/fourth.sock,tcp://127.0.0.1:7472"
check "another backend listens" within 10 test -S "$D/fourth.sock"
sed "s,endpoint = .* key_file,endpoint = \"shm://$D/fourth.sock\" bootstrap = \"tcp://127.0.0.1:7472\" key_file," "$D/gw.conf" >"$D/new.conf"
cp "$D/new.conf" "$D/gw.conf"
check "a file with a first endpoint is taken" gw "$SLUICE" reload
check "it begins by that" within 30 grep -q 'p/a is up for worker 0: tcp 127.0.0.1:7472' "$D/gw.log"
check "and answers, with little to do" within 10 answers
check "by that still" [ "$(grep -c 'switched to the primary endpoint, shm .*fourth.sock' "$D/gw.log")" -eq 0 ]
cl curl -sf --max-time 20 --data-binary "@$D/body" -H 'Expect:' -o "$D/reply" "http://$V4:8080/"
check "with more it goes on by its own" within 10 grep -q 'p/a: worker 0 switched to the primary endpoint, shm .*fourth.sock' "$D/gw.log"
check "which is no fallback" on_fallback 0
check "and answers, as the others did" answers
kill_backend fourth
rm -f "$D/fourth.sock"
listen fifth "shm://$D/fourth.sock"
check "without the first it begins by its own" within 30 grep -q 'p/a is up for worker 0: shm .*fourth.sock' "$D/gw.log"
check "and the log says why" grep -q 'p/a: worker 0 does not begin by its first endpoint: tcp://127.0.0.1:7472: ' "$D/gw.log"
check "it answers, too" within 10 answers
finish
