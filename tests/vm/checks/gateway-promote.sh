#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1200
# lane: 2
# Four backends behind a gateway that may have two queue pairs of its own: all begin by virtual connections, traffic goes from
# one to the next, and the queue pairs go with it.
. tests/netns/lib.sh
. tests/vm/guest/rxe-lib.sh
. tests/vm/guest/gateway-lib.sh

ports="7471 7472 7473 7474"
pool_of() {
    cat << CONFIG
pool p$1 {
    batch { max_latency = 10s }
    backend echo { endpoint = "rdma://$rxe_server:$1" bootstrap = "rdma+ud://$rxe_server:$1" key_file = "$D/key" }
}
route "/$1" { pool = p$1 deadline = 60s }
CONFIG
}
answers() { [ "$(cl curl -sf --max-time 60 -d "$1" "http://$V4:8080/$1")" = "$1" ]; }
returns_bytes() { cl curl -sf --max-time 100 --data-binary "@$D/body" -H 'Expect:' "http://$V4:8080/$1" | cmp - "$D/body"; }
count_of() { metric "sluice_backend_$1_total{worker=\"0\",pool=\"p$2\""; }
sum_of() { metric "sluice_backend_$1_total"; }
# Those of the gateway that are connected, as the kernel has them.
connected_cnt() { rdma resource show qp link rxe1/1 | grep -c 'type RC.* state RTS'; }
watch() {
    while [ ! -e "$D/seen" ]; do
        connected_cnt
        sleep 0.5
    done > "$D/cnt"
}
# Small requests to all of them all the time.
chat() {
    while [ ! -e "$D/seen" ]; do
        for p in $ports; do answers "$p" || echo "$p" >> "$D/lost"; done
        sleep 0.5
    done
}

tests/vm/guest/rxe-up.sh > "$D/rxe" || { cat "$D/rxe"; exit 1; }
arena
umask 077
head -c 32 /dev/urandom | base64 > "$D/key"
head -c 400000 /dev/urandom > "$D/body"
for p in $ports; do
    "$BUILD/echo" --listen "rdma://$rxe_server:$p,rdma+ud://$rxe_server:$p" --key-file "$D/key" >> "$D/backend.log" 2>&1 < /dev/null &
    pid_of[$p]=$!
done
listen() { [ "$(grep -c 'serving on' "$D/backend.log")" -eq "$1" ]; }
check "the backends listen" within 60 listen 4
gateway_config << CONFIG
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
limits { max_rc_qps = 2 }
$(for p in $ports; do pool_of "$p"; done)
CONFIG
# A first endpoint has a second to answer, which may be too short for a guest on a slow host: then the gateway begins anew.
for ((i = 0; i < 5; i++)); do
    [ -z "$gateway_pid" ] || gateway_stop
    gateway_start
    for p in $ports; do check "backend $p answers" within 60 answers "$p"; done
    [ "$(grep -c '/echo is up for worker 0: ud rxe1' "$D/gw.log")" -ne 4 ] || break
done
check "by virtual connections" [ "$(grep -c '/echo is up for worker 0: ud rxe1' "$D/gw.log")" -eq 4 ]
check "without a queue pair of its own" [ "$(connected_cnt)" -eq 0 ]
: > "$D/lost"
watch &
watcher=$!
chat &
chatter=$!
for round in first second; do
    for p in $ports; do
        check "long bodies to $p, the $round time" returns_bytes "$p"
        check "which gets a queue pair for them" within 30 eval \
            "returns_bytes $p && [ \$(count_of promotions $p) -gt \$(count_of demotions $p) ]"
        check "and answers by that" answers "$p"
    done
done
touch "$D/seen"
wait $watcher $chatter
check "of the small requests none was lost meanwhile" [ ! -s "$D/lost" ]
check "there never were more than two" [ "$(sort -n "$D/cnt" | tail -1)" -eq 2 ]
check "who has one now has taken it from another" [ "$(sum_of promotions)" -eq $(($(sum_of demotions) + 2)) ]
check "each has had one" eval 'for p in $ports; do [ "$(count_of promotions $p)" -ge 2 ] || exit 1; done'
check "no connection was lost or begun for that" [ "$(grep -c '/echo is up for worker' "$D/gw.log")" -eq 4 ]
check "no reply came twice" [ "$(sum_of late_replies)" -eq 0 ]
check "and none is missing" [ "$(sum_of requests_sent)" -eq "$(sum_of replies)" ]
check "the sandbox has refused nothing" [ "$(grep -c 'refused system call' "$D/gw.log")" -eq 0 ]
check "the gateway ends" gateway_stop
finish
