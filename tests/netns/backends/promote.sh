#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Connections of their own are for those backends that have enough to do, and there is one: what is busy gets it, from what is
# idle or nearly so, with all that is under way. In the place of queue pairs and virtual connections: shared memory and tcp.
. "$(dirname "$0")/../lib.sh"

arena
head -c 32 /dev/urandom | base64 >"$D/key"
chgrp "$(id -g "$RUN_AS")" "$D/key"
chmod 640 "$D/key"
backends="a b c"
declare -A load_of=()
for b in $backends; do
	in_group nsenter --net="/run/netns/$G" "$BUILD/echo" --listen "shm://$D/$b.sock,tcp://127.0.0.1:74$((16#$b))" --key-file "$D/key" \
		>>"$D/$b.log" 2>&1 </dev/null &
	pid_of[$b]=$!
	check "backend $b listens" within 10 test -S "$D/$b.sock"
done
pool_of() {
	cat <<EOF
pool $1 {
	batch { max_latency = 10s }
	backend x { endpoint = "shm://$D/$1.sock" bootstrap = "tcp://127.0.0.1:74$((16#$1))" key_file = "$D/key" }
}
route "/$1" { pool = $1 deadline = 30s }
EOF
}
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 half_close = answer }
limits { max_rc_qps = 1 }
$(for b in $backends; do pool_of $b; done)
EOF

answers() { [ "$(cl curl -sf --max-time 5 -d "$1" "http://$V4:8080/$1")" = "$1" ]; }
count_of() { metric "sluice_backend_$1_total{worker=\"0\",pool=\"$2\""; }
sum_of() { metric "sluice_backend_$1_total"; }
# Connections to the sockets of shared memory, as the kernel has them.
own_cnt() { gw ss -xH state connected | grep -c "$D/[$1].sock"; }
has_own() { [ "$(own_cnt "$1")" -eq 1 ]; }
# Load until it is told to end, which is when it says what it saw. One request with its reply makes the link busy (PROMO_BYTES),
# however slow the host is.
echo 'wrk.method = "POST" wrk.body = string.rep("x", 40000)' >"$D/post.lua"
load() {
	nsenter --net="/run/netns/$C" wrk -t1 -c8 --timeout 20s -d60s -s "$D/post.lua" "http://$V4:8080/$1" >"$D/wrk.$1" &
	load_of[$1]=$!
}
end_load() {
	within 20 eval "! kill -INT ${load_of[$1]} 2>/dev/null" # before it listens to that, nothing happens
	wait "${load_of[$1]}"
}
# The body, an eighth of what a place is for at a time, and never faster to make up for what was late.
slowly() { /usr/bin/python3 -c 'import sys, time
while data := sys.stdin.buffer.read(8192):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    time.sleep(0.05)' <"$D/body"; }
watch() {
	while [ ! -e "$D/seen" ]; do
		own_cnt abc
		sleep 0.05
	done >"$D/cnt"
}
# Now and then a small request to each.
chat() {
	while [ ! -e "$D/seen" ]; do
		for b in $backends; do answers "$b" || echo "$b" >>"$D/lost"; done
		sleep 0.1
	done
}

for b in $backends; do check "$b answers" within 30 answers $b; done
sleep 1
check "by what they began with, for they have little to do" [ "$(own_cnt abc)" -eq 0 ]

# Bodies that come slowly all the time, and load that moves on.
watch &
watcher=$!
: >"$D/lost"
chat &
chatter=$!
head -c 3000000 /dev/urandom >"$D/body"
uploads=()
for b in $backends; do
	slowly | cl curl -sf --max-time 60 -X POST -T - -H 'Expect:' -o "$D/reply.$b" "http://$V4:8080/$b" &
	uploads+=($!)
done
load a
check "what is busy gets a connection of its own" within 20 has_own a
load b
check "while that is used, the next one waits, and is counted" within 20 eval '[ "$(count_of promotions_refused b)" -ge 1 ]'
end_load a
check "when it has little to do, it gives it up" within 20 has_own b
load c
end_load b
check "and so does the next" within 20 has_own c
end_load c
for b in $backends; do
	check "no request of $b was lost" eval "cat $D/wrk.$b; ! grep -q 'Non-2xx\|Socket errors' $D/wrk.$b && grep -q '[1-9][0-9]* requests in' $D/wrk.$b"
done
for u in "${uploads[@]}"; do check "nor was a long one" wait "$u"; done
for b in $backends; do check "nor a byte of it" cmp "$D/body" "$D/reply.$b"; done
touch "$D/seen"
wait $watcher $chatter
check "nor a small one" [ ! -s "$D/lost" ]
check "there never were more than that" [ "$(sort -n "$D/cnt" | tail -1)" -eq 1 ]
sleep 2 # the replies to those bodies may have been worth it, for a moment
load c
check "what is busy last has it" within 20 has_own c
end_load c
sleep 2
check "idle, it keeps it" has_own c
for b in $backends; do
	check "$b answers still" answers $b
	check "$b has had it" [ "$(count_of promotions $b)" -ge 1 ]
done
check "all but the last have given it up" [ "$(sum_of promotions)" -eq $(($(sum_of demotions) + 1)) ]
check "no connection was lost or begun for that" [ "$(grep -c '/x is up for worker' "$D/gw.log")" -eq 3 ]
check "no reply came twice" [ "$(sum_of late_replies)" -eq 0 ]
check "and none is missing" [ "$(sum_of requests_sent)" -eq "$(sum_of replies)" ]

# The bound is looked at again with each reload.
sed -i 's/max_rc_qps = 1/max_rc_qps = 0/' "$D/gw.conf"
check "a file without places is taken" gw "$SLUICE" reload
check "the last one goes back" within 10 eval '[ "$(own_cnt abc)" -eq 0 ]'
before=$(count_of promotions_refused a)
load a
check "who wants one is refused, and counted" within 20 eval '[ "$(count_of promotions_refused a)" -gt "$before" ]'
check "and nobody gets another" [ "$(own_cnt abc)" -eq 0 ]
end_load a
for b in $backends; do check "$b answers to the end" answers $b; done
finish
