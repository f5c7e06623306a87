#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Messages of gRPC of exactly max_message, and one byte longer: to a backend of the SDK, and through an agent.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gw /usr/bin/python3 "$here/agent/grpc_server.py" 127.0.0.1:50051 >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
limits { max_message = 3m }
memory { frames = 256m }
pool sdk { backend a { endpoint = "shm://$D/echo.sock" } batch { max_latency = 10s } }
pool agent { backend a { endpoint = "h2c://127.0.0.1:50051" } }
route "/sdk.Unary/" { pool = sdk }
route "/sdk.Stream/" { pool = sdk stream = yes }
route "/t.S/" { pool = agent }
route "/t.Stream/" { pool = agent stream = yes }
CONF

# limits TEXT UNARY STREAM: two methods, and a program on stdin that asks them
limits() {
	{
		cat <<PY
import queue
import grpc
from raw import expect
UNARY, STREAM = "/$2", "/$3"
MAX = 3 << 20
channel = grpc.insecure_channel("$V4:8080", options=[(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")])
def fails(f):
    try:
        expect("an error", len(f()), "RESOURCE_EXHAUSTED")
    except grpc.RpcError as e:
        expect("status", (e.code(), e.details()), (grpc.StatusCode.RESOURCE_EXHAUSTED, "message larger than the limit"))
PY
		cat -
	} >"$D/test.py"
	check "$1" cl timeout 200 /usr/bin/python3 "$D/test.py"
}

for way in "a backend of the SDK: sdk.Unary/Echo sdk.Stream/Echo" "an agent: t.S/echo t.Stream/talk"; do
	read -r unary stream <<<"${way#*: }"
	limits "${way%%: *}, unary" "$unary" "$stream" <<'PY'
call = channel.unary_unary(UNARY)
for n in (MAX, MAX - 1):
    expect(f"{n} bytes", call(b"x" * n, timeout=60) == b"x" * n, True)
for n in (MAX + 1, 2 * MAX, MAX):
    if n > MAX:
        fails(lambda: call(b"x" * n, timeout=60))
    else:
        expect("another one", call(b"y" * n, timeout=60) == b"y" * n, True)
PY
	limits "${way%%: *}, on a stream" "$unary" "$stream" <<'PY'
call = channel.stream_stream(STREAM)
sizes = (MAX, 5, 0, MAX)
expect("all of them", [len(r) for r in call(iter([b"x" * n for n in sizes]), timeout=60)], list(sizes))
fails(lambda: list(call(iter([b"x" * (MAX + 1)]), timeout=60)))
# Behind an answer, with which the head has gone.
for n in (5, MAX):
    q = queue.Queue()
    q.put(b"x" * n)
    answers = call(iter(q.get, None), timeout=60)
    expect("the first", len(next(answers)), n)
    q.put(b"x" * (MAX + 1))
    fails(lambda: next(answers))
    q.put(None)
PY
done
# The RPC's limit bounds a reply, by default to max_message.
limits "an agent, a reply" t.S/size t.Stream/size <<'PY'
for method in (UNARY, STREAM):
    call, most = channel.unary_unary(method), 64 << 20
    expect("as long as one may be", len(call(b"%d" % most, timeout=60)), most)
    try:
        expect("an error", len(call(b"%d" % (most + 1), timeout=60)), "RESOURCE_EXHAUSTED")
    except grpc.RpcError as e:
        expect("status", e.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
PY
# A call that waits for an answer before it ends: only a route with stream = yes can serve it.
limits "a call of several messages without stream = yes" sdk.Unary/Echo sdk.Stream/Echo <<'PY'
for method in (UNARY, STREAM):
    q = queue.Queue()
    q.put(b"one")
    answers = channel.stream_stream(method)(iter(q.get, None), timeout=60)
    if method == STREAM:
        expect("an answer", next(answers), b"one")
    else:
        try:
            expect("an error", next(answers), "UNIMPLEMENTED")
        except grpc.RpcError as e:
            expect("status", e.code(), grpc.StatusCode.UNIMPLEMENTED)
            expect("the key", "stream = yes" in e.details(), True)
    q.put(None)
PY
unended() { [ "$(metric 'sluice_exchanges_total{worker="0",outcome="not_unary"}')" = 1 ]; }
check "it is counted" unended
too_long() { [ "$(metric 'sluice_front_errors_total{worker="0",error="grpc_message"}')" -gt 0 ]; }
check "refusals are counted" too_long
finish
