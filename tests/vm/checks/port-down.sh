#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1000
# lane: 2
# A port that goes down and comes back, below connections of RDMA's own kind and below virtual ones. First of a link by itself:
# nothing is sent meanwhile, and each request is carried out once. Then of the whole gateway under load, with two backends behind
# two ways: the other one has all that comes, every request is answered, and the first is used again. Then of one alone: what
# waits is answered once it is back.
. tests/netns/lib.sh
. tests/vm/guest/rxe-lib.sh
. tests/vm/guest/gateway-lib.sh
. tests/vm/guest/rpc-lib.sh

# $1: name, $2: address. It is reached by both kinds.
backend() {
    "$BUILD/echo" --listen "rdma://$2:7471,rdma+ud://$2:7471" --key-file "$D/key" >> "$D/$1.log" 2>&1 < /dev/null &
    pid_of[$1]=$!
}

# $1: name of a metric, $2: labels of its sample.
metric_of() { admin /metrics | sed -n "s/^$1{\(.*,\)\{0,1\}$2.*} //p" | head -n 1; }
is_up() { [ "$(metric_of sluice_backend_up "pool=\"$1\",backend=\"$2\"")" -eq 1 ]; }
replies() { metric_of sluice_backend_replies_total "pool=\"$1\",backend=\"$2\""; }
replied_since() { [ "$(replies "$1" "$2")" -gt "$3" ]; }
answers() { [ "$(cl curl -sf --max-time 20 -d "$1" "http://$V4:8080/$2")" = "$1" ]; }

ends_of() { grep -c "$1/far is down" "$D/gw.log"; }

load() {
    nsenter --net="/run/netns/$C" \
        python3 tests/vm/guest/ask.py "$V4:8080" "/$1" 20 "$D/seen" > "$D/asked" 2>&1 &
    asker_pid=$!
}
all_answered() {
    kill -TERM $asker_pid
    wait $asker_pid
    cat "$D/asked"
    grep -qx '200 [0-9]*' "$D/asked" && ! grep -qvxE '200 [0-9]+' "$D/asked"
}

# Requests that left before are answered, and then none goes there.
is_left_alone() {
    local before
    sleep 0.3
    before=$(replies "$1" far)
    sleep 1
    [ "$(replies "$1" far)" -eq "$before" ]
}

# $1: the kind.
port_of_one_of_two() {
    local before
    load "two-$1"
    check "$1: both are used" within 60 replied_since "two-$1" far 0
    check "$1: the other one, too" within 60 replied_since "two-$1" near 0
    rxe_port_down
    before=$(replies "two-$1" near)
    check "$1: nothing goes to the one whose port is down" within 20 is_left_alone "two-$1"
    check "$1: who comes then is answered" answers elsewhere "two-$1"
    check "$1: by the other one" replied_since "two-$1" near "$before"
    before=$(replies "two-$1" far)
    rxe_port_up
    check "$1: once its port is back it is used again" within 60 replied_since "two-$1" far "$before"
    check "$1: every request was answered" all_answered
}
port_of_the_only_one() {
    local before down_s ends
    check "$1: the only one answers" within 20 answers hello "one-$1"
    before=$(replies "one-$1" far)
    ends=$(ends_of "one-$1")
    down_s=$SECONDS
    rxe_port_down
    sleep 0.3
    cl curl -s --max-time 60 -d waits "http://$V4:8080/one-$1" > "$D/waited" &
    asker_pid=$!
    sleep 1
    check "$1: nobody is answered while its port is down" [ ! -s "$D/waited" ]
    rxe_port_up
    down_s=$((SECONDS - down_s))
    wait $asker_pid
    check "$1: who has waited is answered once it is back" [ "$(cat "$D/waited")" = waits ]
    check "$1: once" [ "$(replies "one-$1" far)" -eq $((before + 1)) ]
    # After four seconds it may, and on a slow machine they pass.
    [ $down_s -ge 3 ] || check "$1: the connection has not ended" [ "$(ends_of "one-$1")" -eq "$ends" ]
}

pools() {
    local kind scheme
    for kind in own virtual; do
        scheme=rdma$([ $kind = own ] || echo +ud)
        cat << POOLS
pool two-$kind {
    batch { max_latency = 10s }
    backend far { endpoint = "$scheme://$rxe_server:7471" key_file = "$D/key" }
    backend near { endpoint = "$scheme://$rxe_server2:7471" key_file = "$D/key" }
}
pool one-$kind {
    batch { max_latency = 10s }
    backend far { endpoint = "$scheme://$rxe_server:7471" key_file = "$D/key" }
}
route "/two-$kind" { pool = two-$kind deadline = 12s idempotent = yes }
route "/one-$kind" { pool = one-$kind deadline = 60s idempotent = yes }
POOLS
    done
}

RXE_WAYS=2 tests/vm/guest/rxe-up.sh > "$D/rxe" || { cat "$D/rxe"; exit 1; }

SL_RPC_PORT_DOWN=$(declare -f rxe_port_down | tail -n +2)
SL_RPC_PORT_UP=$(declare -f rxe_port_up | tail -n +2)
export SL_RPC_PORT_DOWN SL_RPC_PORT_UP
for scheme in rdma rdma+ud; do
    rpc_failed=0
    SL_RPC_ENDPOINTS=$scheme://$rxe_server:7471 rpc_run port
    check "a link by $scheme" [ "$rpc_failed" -eq 0 ]
done

arena
umask 077
head -c 32 /dev/urandom | base64 > "$D/key"
backend far "$rxe_server"
backend near "$rxe_server2"
gateway << CONFIG
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
$(pools)
CONFIG
for kind in own virtual; do
    check "$kind: both ways are up" within 30 is_up two-$kind far
    check "$kind: the other one, too" within 30 is_up two-$kind near
    check "$kind: and the only one" within 30 is_up one-$kind far
done
for kind in own virtual; do
    port_of_one_of_two $kind
    port_of_the_only_one $kind
done
check "the sandbox has refused nothing" [ "$(grep -c 'refused system call' "$D/gw.log")" -eq 0 ]
check "the gateway ends" gateway_stop
finish
