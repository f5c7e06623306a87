#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1000
# lane: 2
# The whole gateway: clients behind a veth in front, a backend behind RDMA; killed, started again, drained.
. tests/netns/lib.sh
. tests/vm/guest/rxe-lib.sh
. tests/vm/guest/gateway-lib.sh

backend() {
    "$BUILD/echo" --listen "rdma://$rxe_server:7471" --key-file "$D/$1" >> "$D/backend.log" 2>&1 < /dev/null &
    pid_of[echo]=$!
}

answers() { [ "$(cl curl -sf --max-time 5 -d "$1" "http://$V4:8080/echo")" = "$1" ]; }
refuses() { [ "$(cl curl -s -o /dev/null -w '%{http_code}' --max-time 5 -d x "http://$V4:8080/echo")" = 503 ]; }
is_up() { [ "$(metric sluice_backend_up)" -eq 1 ]; }
is_down() { [ "$(metric sluice_backend_up)" -eq 0 ]; }

# A body of $1 bytes comes back as it went.
returns_bytes() {
    head -c "$1" /dev/urandom > "$D/body"
    cl curl -sf --max-time 30 --data-binary "@$D/body" -H 'Expect:' "http://$V4:8080/echo" | cmp - "$D/body"
}

# Four connections for three seconds; everything is answered.
short_load() {
    cl wrk -t1 -c4 -d3s "http://$V4:8080/echo" > "$D/wrk" || return 1
    cat "$D/wrk"
    ! grep -q 'Non-2xx\|Socket errors' "$D/wrk" && grep -q '[1-9][0-9]* requests in' "$D/wrk"
}

tests/vm/guest/rxe-up.sh > "$D/rxe" || { cat "$D/rxe"; exit 1; }
arena
umask 077
head -c 32 /dev/urandom | base64 > "$D/key"
head -c 32 /dev/urandom | base64 > "$D/other-key"

backend key
gateway << CONFIG
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool one {
    batch { max_latency = 10s }
    backend echo { endpoint = "rdma://$rxe_server:7471" key_file = "$D/key" }
}
route "/echo" { pool = one deadline = 10s }
CONFIG
check "the backend is up" within 20 is_up
way='rdma rxe1/1 gid\[[0-9]*\] ::ffff:10.77.0.2 mtu 4096 RC'
check "the log names device, port, GID, MTU and transport" grep -q "one/echo is up for worker 0: $way, [0-9]* shared slots" "$D/gw.log"
says() { "$@" | grep "$way"; }
check "so does the status" says "$SLUICE" status
check "and the doctor, of device and backend" says "$SLUICE" doctor -c "$D/gw.conf"
doctor_knows() { "$SLUICE" doctor | grep -q "RDMA rxe1/1 *gid\[1\] ::ffff:10.77.0.2, RoCE v2"; }
check "it lists the GIDs" doctor_knows
doctor_tried() { "$SLUICE" doctor | grep -q "RDMA $1/1 *memory windows and shared receive queues, tried: they work"; }
check "it has tried what connections share, on one device" doctor_tried rxe0
check "and on the other" doctor_tried rxe1
check "a small body" within 20 answers hello
check "a body of 3000 bytes, in a slot" returns_bytes 3000
check "a body of 1 MB, in the bulk ring" returns_bytes 1000000
packets=/sys/class/net/sl-rxe1/statistics/tx_packets
before=$(cat $packets)
check "short load" short_load
check "it went over the wire" [ $(($(cat $packets) - before)) -ge 10 ]

kill_backend echo
check "the death is noticed" within 60 is_down
check "503 without a backend" within 60 refuses
backend other-key
sleep 2
check "one with another key is not used" is_down
says_why() { admin /stats | grep -q 'give both ends the same key file'; }
check "and the stats say why" within 10 says_why
kill_backend echo
reconnects=$(grep -c 'is up for worker' "$D/gw.log")
backend key
check "one with the key is, again" within 60 is_up
check "and answers" within 20 answers again
check "and the log says which way, again" [ "$(grep -c "is up for worker 0: $way" "$D/gw.log")" -gt "$reconnects" ]
check "also with 1 MB" returns_bytes 1000000

check "a backend that is told to stop ends" end_process "${pid_of[echo]}" 20
check "in order" [ "$status" -eq 0 ]
check "and leaves" within 10 is_down
check "the gateway ends" gateway_stop

# Falling back is a choice of the configuration, and is said.
"$BUILD/echo" --listen "shm://$D/near.sock" > "$D/near.log" 2>&1 < /dev/null &
pid_of[near]=$!
gateway << CONFIG
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool one {
    batch { max_latency = 10s }
    backend echo { endpoint = "rdma://$rxe_server:7471" fallback = "shm://$D/near.sock" key_file = "$D/key" }
}
route "/echo" { pool = one deadline = 10s }
CONFIG
check "without RDMA the configured fallback is used" within 10 answers fallback
check "the log says so" grep -q "one/echo: .*; worker 0 uses its fallback shm://$D/near.sock: shm" "$D/gw.log"
way='(fallback)'
check "so does the status" says "$SLUICE" status
check "and a metric" [ "$(metric sluice_backend_on_fallback)" -eq 1 ]
finish
