#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A stock grpcio server behind h2c://, a stock grpcio client in front.
. "$(dirname "$0")/../lib.sh"

arena
nsenter --net="/run/netns/$server_netns" /usr/bin/python3 "$here/agent/grpc_server.py" "$server_ip:50051" >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
health='' services='t.S t.Stream'
[ -z "$server_way" ] || health='health { }' services=t.S # streams are below
gateway <<CONF
interface "$GIF" { }
$server_keys
listener v4 { address = "$V4" port = 8080 }
limits { max_message = 16m }
memory { frames = 256m }
pool grpc { backend a { endpoint = "h2c://$server_ip:50051"$server_way } $health }
route "/" { pool = grpc }
route "/t.Stream/" { pool = grpc stream = yes }
CONF

# grpc TEXT: a program on stdin with `call(method, request, **options)` and `expect`
grpc() {
	local text=$1
	cat - >"$D/body.py"
	cat - >"$D/test.py" <<PY
service = "$service"
PY
	cat >>"$D/test.py" <<'PY'
import sys, threading, time
import grpc
from raw import expect, eventually, get, post
channel = grpc.insecure_channel("10.99.0.1:8080", options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
def stub(method):
    return channel.unary_unary(f"/{service}/{method}")
def call(method, request=b"", **o):
    return stub(method)(request, timeout=o.pop("timeout", 20), **o)
PY
	cat "$D/body.py" >>"$D/test.py"
	check "$service: $text" cl timeout 200 /usr/bin/python3 "$D/test.py"
}

for service in $services; do
grpc "unary calls, empty and large messages" <<'PY'
expect("empty", call("echo", b""), b"")
expect("small", call("echo", b"hello"), b"hello")
for n in (65530, 65536, 300000, 8 << 20):
    body = bytes(range(256)) * (n // 256) + b"x" * (n % 256)
    expect(f"{n} bytes", call("echo", body) == body, True)
    expect(f"{n} bytes back", call("size", b"%d" % n) == b"x" * n, True)
PY
grpc "metadata both ways, ASCII and -bin" <<'PY'
r, c = stub("echo").with_call(b"", timeout=20, metadata=(("x-echo-initial", "value"), ("x-echo-trailing-bin", b"\x00\x01\xab\xff")))
expect("initial", dict(c.initial_metadata()).get("x-echo-initial"), "value")
expect("trailing", dict(c.trailing_metadata()).get("x-echo-trailing-bin"), b"\x00\x01\xab\xff")
got = call("metadata", b"", metadata=(("a", "1"), ("b-bin", b"\xff\x00"), ("a", "2"))).decode().split("\n")
expect("order", [l for l in got if l.startswith(("a=", "b-bin="))], ["a='1'", r"b-bin=b'\xff\x00'", "a='2'"])
expect("client", "x-forwarded-for='10.99.0.2'" in got, True)
PY
grpc "statuses, messages, details" <<'PY'
for code in range(1, 17):
    try:
        call("status", b"%d why: \xc3\xa4 %%" % code)
        expect("an error", None, code)
    except grpc.RpcError as e:
        expect("code", e.code().value[0], code)
        expect("text", e.details(), "why: \u00e4 %")
        expect("details", dict(e.trailing_metadata())["grpc-status-details-bin"], b"\x08\x05\x12\x00\xff")
try:
    call("nothing")
except grpc.RpcError as e:
    expect("unknown method", e.code(), grpc.StatusCode.UNIMPLEMENTED)
PY
grpc "a deadline reaches the server as what is left" <<'PY'
expect("none", stub("left")(b""), b"none")
left = float(call("left", b"", timeout=15))  # grpc-timeout is sent rounded up to two figures or three
expect(f"left of 15 s: {left}", 5 < left < 16, True)
left = float(call("left", b"", timeout=10800))  # more than 2^32 microseconds
expect(f"left of 3 h: {left}", 10700 < left < 11000, True)
left = float(call("left", b"", timeout=400000))
expect(f"left of 111 h: {left}", 390000 < left < 410000, True)
f = stub("wait").future(b"late", timeout=3)
expect("late", f.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
expect("the server knows", eventually(20, lambda: b"False" in call("state", b"late")), True)
PY
grpc "a client that cancels: the server sees it" <<'PY'
f = stub("wait").future(b"cancelled", timeout=30)
expect("begun", eventually(20, lambda: call("state", b"cancelled") == b"None"), True)
at = time.monotonic()
f.cancel()
expect("seen", eventually(20, lambda: b"False" in call("state", b"cancelled")), True)
print("after %.1f ms" % ((float(call("state", b"cancelled").decode().strip("(").split(",")[0]) - at) * 1e3))
PY
grpc "calls that last do not keep others waiting; many at a time" <<'PY'
fs = [stub("wait").future(b"w%d" % i, timeout=30) for i in range(8)]
for i in range(200):
    expect("echo", call("echo", b"%d" % i), b"%d" % i)
many = [stub("echo").future(b"%d" % i, timeout=30) for i in range(500)]
expect("many", [f.result() for f in many], [b"%d" % i for i in range(500)])
[f.cancel() for f in fs]
PY
grpc "server streaming" <<'PY'
got = list(channel.unary_stream(f"/{service}/count")(b"500", timeout=30))
expect("messages", got, [b"message %d" % i for i in range(500)])
expect("none", list(channel.unary_stream(f"/{service}/count")(b"0", timeout=30)), [])
PY
# The server computes a message when it is told to, behind the cancel on the same connection; or, where the client has
# closed one of its own, when it knows.
grpc "no more than one message is computed for a client that cancels, or closes" <<'PY'
def walked(name):
    return [int(word) for word in call("walked", name).split()]
for i in range(20):
    closes = i % 2
    name = f"{service} {i}".encode()
    own = grpc.insecure_channel("10.99.0.1:8080", options=[("grpc.use_local_subchannel_pool", 1)]) if closes else channel
    walk = own.unary_stream(f"/{service}/steps")(name, timeout=60)
    expect("begun", eventually(20, lambda: call("step", name) == b""), True)
    for n in (b"1", b"2", b"3"):
        expect("message", next(walk), n)
        if n != b"3":
            call("step", name)
    if closes:
        own.close()
        expect("known", eventually(20, lambda: walked(name)[1] == 0), True)
    else:
        walk.cancel()
    for _ in range(5):
        call("step", name)
    expect("over", eventually(20, lambda: walked(name)[1:] == [0, 1]), True)
    expect("messages, fewer than two more", walked(name)[0] < 3 + 2, True)
PY
done
grpc "plain HTTP to a gRPC server is answered by it" <<'PY'
r = post("/t.S/echo", b"")
expect("refused by the server", r.status in (415, 200, 502), True)
PY

service=t.Stream
grpc "client streaming, of messages of all sizes" <<'PY'
total = channel.stream_unary("/t.Stream/total")
expect("none", total(iter(()), timeout=20), b"0")
expect("many", total((b"x" * (i % 1000) for i in range(3000)), timeout=30), b"%d" % sum(i % 1000 for i in range(3000)))
expect("large", total((b"x" * n for n in (5 << 20, 0, 65536, 1)), timeout=30), b"%d" % ((5 << 20) + 65537))
PY
grpc "both ways at once: each message is answered before the next one is said; half close" <<'PY'
import queue
q = queue.Queue()
call = channel.stream_stream("/t.Stream/talk")(iter(q.get, None), timeout=30)
for n in (0, 1, 5, 70000, 3 << 20) * 5:
    q.put(b"m" * n)
    expect("echo", next(call) == b"m" * n, True)
expect("initial", dict(call.initial_metadata())["x-talk"], "begun")
q.put(None)
expect("end", list(call), [])
expect("status", (call.code(), dict(call.trailing_metadata())["x-said"]), (grpc.StatusCode.OK, "25"))
PY
grpc "a status while the client still sends" <<'PY'
def say():
    yield b"one"
    yield b"status 9"
    while True:
        time.sleep(0.01)
        yield b"more" * 1000
call = channel.stream_stream("/t.Stream/talk")(say(), timeout=30)
try:
    expect("first", next(call), b"one")
    next(call)
    expect("an error", None, 9)
except grpc.RpcError as e:
    expect("status", (e.code(), e.details(), dict(e.trailing_metadata())["x-said"]),
           (grpc.StatusCode.FAILED_PRECONDITION, "enough", "2"))
PY
grpc "a deadline and a cancel end both directions at the server" <<'PY'
import itertools
def say(name):
    yield name
    for i in itertools.count():
        time.sleep(0.02)
        yield b"x"
held = channel.stream_stream("/t.Stream/hold")
call = held(say(b"h1"), timeout=5)
expect("held", next(call), b"held")
try:
    next(call)
except grpc.RpcError as e:
    expect("late", e.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
expect("the server knows", eventually(20, lambda: b"False" in stub("state")(b"h1")), True)
call = held(say(b"h2"), timeout=30)
expect("held", next(call), b"held")
at = time.monotonic()
call.cancel()
expect("the server knows", eventually(20, lambda: b"False" in stub("state")(b"h2")), True)
print("after %.1f ms" % ((float(stub("state")(b"h2").decode().strip("(").split(",")[0]) - at) * 1e3))
PY
grpc "many streams at a time, each at its own pace" <<'PY'
import queue
calls = []
for i in range(200):
    q = queue.Queue()
    calls.append((q, channel.stream_stream("/t.Stream/talk")(iter(q.get, None), timeout=60)))
    calls[-1][0].put(b"first %d" % i)
    if i >= 50:  # of the server's threads there are 64
        q, call = calls.pop(0)
        expect("first", next(call), b"first %d" % (i - 50))
        q.put(None)
        expect("end", list(call), [])
for q, call in calls:
    q.put(None)
    list(call)
PY
[ -z "$server_way" ] || finish # the rest is not about the way to the server
# Health and reflection: of the gateway, unless a route names the service. The server's own answers are others.
service='the gateway'
ask='
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
INFO = {v: f"/grpc.reflection.{v}.ServerReflection/ServerReflectionInfo" for v in ("v1", "v1alpha")}
def reflect(version):  # list_services
    return next(channel.stream_stream(INFO[version])(iter([b"\x3a\x00"]), timeout=20))
def fails(code, f, *a):
    try:
        expect("an error", f(*a), code)
    except grpc.RpcError as e:
        expect("status", e.code(), code)
'
grpc "health is the gateway's where no route names it, and reflection the server's" <<PY
$ask
expect("check of all", channel.unary_unary(CHECK)(b"", timeout=20), b"\x08\x01")
expect("of a pool", channel.unary_unary(CHECK)(b"\x0a\x04grpc", timeout=20), b"\x08\x01")
fails(grpc.StatusCode.NOT_FOUND, lambda: channel.unary_unary(CHECK)(b"\x0a\x01x", timeout=20))
watch = channel.unary_stream(WATCH)(b"", timeout=20)
expect("watch", next(watch), b"\x08\x01")
watch.cancel()
fails(grpc.StatusCode.UNIMPLEMENTED, lambda: channel.unary_unary("/grpc.health.v1.Health/List")(b"", timeout=20))
PY
protoc-c -I"$here/../../user/sdk/programs" -o "$D/interop.pb" interop.proto
cp "$D/gw.conf" "$D/plain.conf"
# restarted: the configuration on stdin behind what there was
restarted() {
	cat "$D/plain.conf" - >"$D/gw.conf"
	gateway_end
	gateway_start
}
restarted <<CONF
descriptor_sets = {"$D/interop.pb"}
CONF
grpc "with descriptor sets reflection is the gateway's too" <<PY
$ask
for v in INFO:
    expect(v, b"grpc.testing.TestService" in reflect(v), True)
PY
routes='route "/grpc.health.v1.Health/" { pool = grpc stream = yes }
route "/grpc.reflection.v1.ServerReflection/" { pool = grpc stream = yes }
route "/grpc.reflection.v1alpha.ServerReflection/" { pool = grpc stream = yes }'
servers_own="$ask"'
expect("check", channel.unary_unary(CHECK)(b"\x0a\x01x", timeout=20), b"\x08\x01\x0a\x01x")
expect("watch", list(channel.unary_stream(WATCH)(b"", timeout=20)), [b"\x08\x02", b"\x08\x01"])
for v in INFO:
    expect(v, reflect(v), b"\x12\x02\x3a\x00\x3a\x04\x08\x2a\x12\x00")
'
restarted <<<"$routes"
grpc "routes that name the services: they are the server's" <<<"$servers_own"
{ echo "descriptor_sets = {\"$D/interop.pb\"}"; echo "$routes"; } >"$D/more"
restarted <"$D/more"
grpc "and with descriptor sets too" <<<"$servers_own"
restarted <<CONF
descriptor_sets = {"$D/interop.pb"}
route "/grpc.health.v1.Health/Check" { pool = grpc strip_prefix = no }
route "/grpc.reflection.v1.ServerReflection" { pool = grpc stream = yes }
CONF
grpc "a route for one method, or one version, passes on that one" <<PY
$ask
expect("check", channel.unary_unary(CHECK)(b"\x0a\x01x", timeout=20), b"\x08\x01\x0a\x01x")
expect("watch", next(channel.unary_stream(WATCH)(b"", timeout=20)), b"\x08\x01")
expect("v1", reflect("v1"), b"\x12\x02\x3a\x00\x3a\x04\x08\x2a\x12\x00")
expect("v1alpha", b"grpc.testing.TestService" in reflect("v1alpha"), True)
PY
finish
