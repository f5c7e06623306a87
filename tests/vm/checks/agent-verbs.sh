#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 600
# lane: 2
# Unmodified gRPC programs at both ends, RDMA between: a stock grpcio client, the gateway or `sluice ingress`, an agent behind
# RDMA, a stock grpcio server. Unary and streaming calls; the agent is killed and comes back.
. tests/netns/lib.sh
. tests/vm/guest/rxe-lib.sh
. tests/vm/guest/gateway-lib.sh

tests/vm/guest/rxe-up.sh > "$D/rxe" || { cat "$D/rxe"; exit 1; }
arena
umask 077
head -c 32 /dev/urandom | base64 > "$D/key"
/usr/bin/python3 tests/netns/agent/grpc_server.py 127.0.0.1:50051 > "$D/server.log" 2>&1 < /dev/null &
pid_of[server]=$!
agent() {
    "$SLUICE" agent --listen "rdma://$rxe_server:7471" --to h2c://127.0.0.1:50051 --host far.example --key-file "$D/key" \
        >> "$D/agent.log" 2>&1 < /dev/null &
    pid_of[agent]=$!
}
agent
within 60 grep -q listening "$D/server.log" || { cat "$D/server.log" > "$D/out"; say_failed "the server does not start"; }
gateway << CONFIG
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool grpc {
    batch { policy = direct }
    backend far { endpoint = "rdma://$rxe_server:7471" key_file = "$D/key" }
}
route "/" { pool = grpc forward_headers = {"*"} }
route "/t.Stream/" { pool = grpc stream = yes forward_headers = {"*"} }
CONFIG
is_up() { [ "$(metric sluice_backend_up)" -eq 1 ]; }
is_down() { [ "$(metric sluice_backend_up)" -eq 0 ]; }
check "the agent is up" within 20 is_up
check "by RDMA" grep -q 'grpc/far is up for worker 0: rdma rxe1/1 ' "$D/gw.log"

calls() { "$1" timeout 120 /usr/bin/python3 tests/netns/agent/unmodified.py "$2"; }
packets=/sys/class/net/sl-rxe1/statistics/tx_packets
before=$(cat $packets)
check "unary calls, streams of all kinds, metadata, statuses, a deadline, a cancel" calls cl "$V4:8080"
check "they went over the wire" [ $(($(cat $packets) - before)) -ge 300 ]

kill_backend agent
check "an agent that is killed is noticed" within 20 is_down
agent
check "and is used again when it is back" within 30 is_up
"$SLUICE" ingress --listen 127.0.0.1:50052 --to "rdma://$rxe_server:7471" --key-file "$D/key" --user root --admin none \
    > "$D/ingress.log" 2>&1 < /dev/null &
pid_of[ingress]=$!
within 30 grep -q '^ready$' "$D/ingress.log" || { cp "$D/ingress.log" "$D/out"; say_failed "the ingress does not start"; }
before=$(cat $packets)
check "the ingress passes on all of this" calls env 127.0.0.1:50052
check "over the wire" [ $(($(cat $packets) - before)) -ge 300 ]
finish
