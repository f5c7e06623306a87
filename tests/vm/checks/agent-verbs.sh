#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 600
# lane: 2
# Unchanged gRPC programs at both ends, RDMA between: a stock grpcio client, the gateway, an agent behind RDMA, a stock grpcio
# server. Unary and streaming calls; the agent is killed and comes back.
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

# One client for all cases: an interpreter takes seconds here.
cat > "$D/cases.py" << 'PY'
import sys, threading
import grpc
from raw import expect, eventually
channel = grpc.insecure_channel("10.99.0.1:8080", options=[("grpc.max_receive_message_length", -1)])
def of(kind, method, service="t.Stream"):
    return getattr(channel, kind)(f"/{service}/{method}")
for service in ("t.S", "t.Stream"):
    echo = of("unary_unary", "echo", service)
    for n in (0, 5, 3000, 1000000):
        body = bytes(range(256)) * (n // 256) + b"x" * (n % 256)
        expect(f"{service}: {n} bytes", echo(body, timeout=60) == body, True)
    r, c = echo.with_call(b"", timeout=60, metadata=(("x-echo-initial", "value"), ("x-echo-trailing-bin", b"\x00\xff")))
    expect("initial", dict(c.initial_metadata()).get("x-echo-initial"), "value")
    expect("trailing", dict(c.trailing_metadata()).get("x-echo-trailing-bin"), b"\x00\xff")
    try:
        of("unary_unary", "status", service)(b"5 why", timeout=60)
        expect("a status", "none", "NOT_FOUND")
    except grpc.RpcError as e:
        expect("status", (e.code(), e.details()), (grpc.StatusCode.NOT_FOUND, "why"))
expect("many back", [m for m in of("unary_stream", "count")(b"50", timeout=60)], [b"message %d" % i for i in range(50)])
expect("many there", of("stream_unary", "total")(iter([b"x" * 1000] * 50), timeout=60), b"50000")
expect("both ways", list(of("stream_stream", "talk")(iter([b"%d" % i for i in range(30)]), timeout=60)), [b"%d" % i for i in range(30)])
held = of("stream_stream", "hold")(iter([b"name"]), timeout=60)
expect("held", next(held), b"held")
held.cancel()
state = of("unary_unary", "state")
expect("the server learns of a cancel", eventually(30, lambda: b"False" in state(b"name", timeout=30)), True)
PY
calls() { cl timeout 120 /usr/bin/python3 "$D/cases.py"; }
packets=/sys/class/net/sl-rxe1/statistics/tx_packets
before=$(cat $packets)
check "unary calls, streams of all kinds, metadata, a status, a cancel" calls
check "they went over the wire" [ $(($(cat $packets) - before)) -ge 300 ]

kill_backend agent
check "an agent that is killed is noticed" within 20 is_down
agent
check "and is used again when it is back" within 30 is_up
check "for all of this" calls
finish
