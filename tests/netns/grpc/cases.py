# SPDX-License-Identifier: Apache-2.0
"""The gRPC cases of the netns tests, for a stock grpcio. Usage: cases.py --list | ADDRESS CASE
With CA, a file of certificates, set in the environment: over TLS."""
import os
import queue
import socket
import sys
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool

ECHO = "/sluice.demo.Echo/Echo"
TEST = "/grpc.testing.TestService/"
CASES = {}
BIG = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def case(fn):
    CASES[fn.__name__] = fn
    return fn


def dial(options):
    if "CA" not in os.environ:
        return grpc.insecure_channel(sys.argv[1], options=options)
    with open(os.environ["CA"], "rb") as f:
        return grpc.secure_channel(sys.argv[1], grpc.ssl_channel_credentials(f.read()), options=options)


def unary(ch, method=ECHO):
    return ch.unary_unary(method, request_serializer=None, response_deserializer=None)


def fails(code, fn, *args, **kw):
    try:
        fn(*args, **kw)
    except grpc.RpcError as e:
        assert e.code() == code, f"{e.code()} {e.details()}, expected {code}"
        return e
    raise AssertionError(f"no error, expected {code}")


def echoes(ch, n):
    body = os.urandom(n)
    assert unary(ch)(body, timeout=60) == body


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def field(no, value):
    """One field of a protobuf message: a number, or bytes."""
    if isinstance(value, int):
        return varint(no << 3) + varint(value)
    return varint(no << 3 | 2) + varint(len(value)) + value


def with_status(code, text):
    return field(7, field(1, code) + field(2, text.encode()))


@case
def empty_unary(ch):
    assert unary(ch, TEST + "EmptyCall")(b"", timeout=10) == b""
    assert unary(ch)(b"", timeout=10) == b""


@case
def large_unary(ch):
    request = field(2, 314159) + field(3, field(2, bytes(271828)))
    reply = unary(ch, TEST + "UnaryCall")(request, timeout=20)
    assert reply == field(1, field(2, bytes(314159)))


@case
def sizes_1_byte_to_32_megabytes(ch):
    for n in (1, 5, 1000, 16379, 16384, 65530, 65536, 1 << 20, 5 << 20, 32 << 20):
        echoes(ch, n)


@case
def too_large(ch):
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, unary(ch), bytes((64 << 20) + 1), timeout=60)
    echoes(ch, 100)


@case
def custom_metadata(ch):
    value, binary = "test_initial_metadata_value", b"\xab\xab\xab\x00\xff\n,="
    sent = [("x-grpc-test-echo-initial", value), ("x-grpc-test-echo-trailing-bin", binary), ("a-key", "b")]
    _, call = unary(ch, TEST + "UnaryCall").with_call(field(2, 10), metadata=sent, timeout=10)
    first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
    assert first.get("x-grpc-test-echo-initial") == value, first
    assert last.get("x-grpc-test-echo-trailing-bin") == binary, last
    assert "a-key" not in first and "a-key" not in last


@case
def status_code_and_message(ch):
    e = fails(grpc.StatusCode.UNKNOWN, unary(ch, TEST + "UnaryCall"), with_status(2, "test status message"), timeout=10)
    assert e.details() == "test status message", e.details()


@case
def special_status_message(ch):
    text = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
    e = fails(grpc.StatusCode.UNKNOWN, unary(ch, TEST + "UnaryCall"), with_status(2, text), timeout=10)
    assert e.details() == text, repr(e.details())


@case
def every_status(ch):
    for code in grpc.StatusCode:
        if code != grpc.StatusCode.OK:
            fails(code, unary(ch, TEST + "UnaryCall"), with_status(code.value[0], "x"), timeout=10)


@case
def unimplemented_method(ch):
    fails(grpc.StatusCode.UNIMPLEMENTED, unary(ch, TEST + "UnimplementedCall"), b"", timeout=10)


@case
def unimplemented_service(ch):
    fails(grpc.StatusCode.UNIMPLEMENTED, unary(ch, "/grpc.testing.UnimplementedService/UnimplementedCall"), b"", timeout=10)


@case
def echo_has_one_method(ch):
    for method in ("Ech", "EchoEcho", "echo", "Call"):
        e = fails(grpc.StatusCode.UNIMPLEMENTED, unary(ch, "/sluice.demo.Echo/" + method), b"x", timeout=10)
        assert e.details() == "no such method", e.details()
        fails(grpc.StatusCode.UNIMPLEMENTED, list, ch.unary_stream("/sluice.demo.Part/" + method)(b"x", timeout=10))


def frame(kind, flags, stream, body):
    """One of HTTP/2, for what a stock client would not send."""
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


@case
def timeout_of_a_request_that_never_ends(ch):
    """A stock client counts by itself; here the server has to."""
    host, port = sys.argv[1].rsplit(":", 1)
    literal = lambda name, value: bytes([0, len(name)]) + name + bytes([len(value)]) + value
    head = b"\x83\x86" + b"\x04" + bytes([len(ECHO)]) + ECHO.encode() + b"\x41\x01a"
    head += literal(b"content-type", b"application/grpc") + literal(b"grpc-timeout", b"300m")
    with socket.create_connection((host, port), timeout=30) as s:
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 4, 1, head) + frame(0, 0, 1, b"\0\0\0\0\5x"))
        got, seen = b"", []
        while not seen or seen[-1][0] != 3:
            got += s.recv(65536) or b"\0\0\0\xff"  # a peer that closes instead fails below
            while len(got) >= 9 and len(got) >= 9 + int.from_bytes(got[:3], "big"):
                n = int.from_bytes(got[:3], "big")
                seen.append((got[3], got[4], got[9:9 + n]))
                got = got[9 + n:]
                if seen[-1][:2] == (6, 0):
                    s.sendall(frame(6, 1, 0, seen[-1][2]))  # or it is not known that the reply was seen
            assert not got.endswith(b"\xff"), seen
    # One block of headers that ends the stream, and the rest of the request is not wanted.
    assert [(t, f) for t, f, _ in seen if t in (0, 1)] == [(1, 5)], seen
    assert seen[-1] == (3, 0, bytes(4)), seen


@case
def blanks_around_metadata(ch):
    sent = [("x-grpc-test-echo-initial", "  in the middle ")]
    _, call = unary(ch, TEST + "UnaryCall").with_call(field(2, 10), metadata=sent, timeout=10)
    assert dict(call.initial_metadata()).get("x-grpc-test-echo-initial") == "in the middle"


@case
def fixed_reply_is_no_call(ch):
    fails(grpc.StatusCode.UNIMPLEMENTED, unary(ch, "/fixed/Method"), b"x", timeout=10)


@case
def no_backend_is_unavailable(ch):
    fails(grpc.StatusCode.UNAVAILABLE, unary(ch, "/sluice.demo.Dead/Echo"), b"x", timeout=10)


@case
def timeout_on_sleeping_server(ch):
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, unary(ch, "/sluice.demo.Slow/Echo"), b"x", timeout=0.05)
    assert unary(ch, "/sluice.demo.Slow/Echo")(b"y", timeout=20) == b"y"


@case
def cancel_after_begin(ch):
    call = unary(ch, "/sluice.demo.Slow/Echo").future(b"x", timeout=20)
    time.sleep(0.05)
    call.cancel()
    assert call.code() == grpc.StatusCode.CANCELLED
    echoes(ch, 10)


@case
def many_cancellations(ch):
    for _ in range(5):
        calls = [unary(ch, "/sluice.demo.Slow/Echo").future(b"x", timeout=20) for _ in range(50)]
        for c in calls:
            c.cancel()
    echoes(ch, 10)


@case
def thousand_calls_at_once(ch):
    bodies = [os.urandom(i % 3000) for i in range(1000)]
    calls = [unary(ch).future(b, timeout=60) for b in bodies]
    for b, c in zip(bodies, calls):
        assert c.result() == b


@case
def large_calls_at_once(ch):
    bodies = [os.urandom(1 << 20) for i in range(16)]
    calls = [unary(ch).future(b, timeout=60) for b in bodies]
    for b, c in zip(bodies, calls):
        assert c.result() == b


@case
def several_messages_are_refused(ch):
    call = ch.stream_unary(ECHO)
    fails(grpc.StatusCode.UNIMPLEMENTED, call, iter([b"a", b"b"]), timeout=10)
    fails(grpc.StatusCode.UNIMPLEMENTED, call, iter([]), timeout=10)
    assert call(iter([b"one"]), timeout=10) == b"one"


@case
def compression_is_refused(ch):
    """The backends do not declare support: user/sdk/programs does not."""
    e = fails(grpc.StatusCode.UNIMPLEMENTED, unary(ch), b"a" * 10000, compression=grpc.Compression.Gzip, timeout=10)
    assert e.details() == "compressed messages are not supported by this service", e.details()
    e = fails(grpc.StatusCode.UNIMPLEMENTED, unary(ch, "/grpc.health.v1.Health/Check"), b"\x0a" + bytes([100]) + b"a" * 100,
              compression=grpc.Compression.Gzip, timeout=10)
    assert e.details() == "compressed messages are not supported", e.details()
    echoes(ch, 10)


@case
def reply_in_several_messages(ch):
    call = ch.unary_stream("/sluice.demo.Part/Echo")
    for n in (0, 3, 100000):
        body = os.urandom(n)
        assert list(call(body, timeout=20)) == [body] * 3


def streaming(ch, sizes, status=b"", **kw):
    request = b"".join(field(2, field(1, n) if n else b"") for n in sizes) + status
    return ch.unary_stream(TEST + "StreamingOutputCall")(request, timeout=20, **kw)


def payload(n):
    return field(1, field(2, bytes(n)) if n else b"")


@case
def server_streaming(ch):
    sizes = [31415, 9, 2653, 58979, 0, 1 << 20]
    for _ in range(3):
        call = streaming(ch, sizes)
        got = list(call)
        assert got == [payload(n) for n in sizes], [len(g) for g in got]
        assert call.code() == grpc.StatusCode.OK
    assert list(streaming(ch, [])) == []


@case
def status_after_streamed_messages(ch):
    text = "ends \u263a\n"
    call = ch.unary_stream("/sluice.demo.Late/Echo")(b"abc", timeout=20)  # each part says the status
    assert [next(call), next(call), next(call)] == [b"abc"] * 3
    fails(grpc.StatusCode.FAILED_PRECONDITION, next, call)
    for sizes in ([], [5], [0, 100000, 7]):
        call = streaming(ch, sizes, with_status(9, text))
        assert [next(call) for _ in sizes] == [payload(n) for n in sizes]
        e = fails(grpc.StatusCode.FAILED_PRECONDITION, next, call)
        assert e.details() == text, e.details()


@case
def metadata_around_streamed_messages(ch):
    value, binary = "at the beginning", b"\0at\xff the end,"
    sent = [("x-grpc-test-echo-initial", value), ("x-grpc-test-echo-trailing-bin", binary)]
    for sizes in ([], [10], [10, 200000, 30]):
        for status in (b"", with_status(5, "no")):
            call = streaming(ch, sizes, status, metadata=sent)
            try:
                assert len(list(call)) == len(sizes)
                assert not status
            except grpc.RpcError as e:
                assert status and e.code() == grpc.StatusCode.NOT_FOUND, e
            first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
            if sizes or not status:  # else it is one block of headers, which counts as trailing
                assert first.get("x-grpc-test-echo-initial") == value, first
                assert "x-grpc-test-echo-trailing-bin" not in first
            assert last.get("x-grpc-test-echo-trailing-bin") == binary, last


@case
def health(ch):
    check = unary(ch, "/grpc.health.v1.Health/Check")
    ask = lambda name: check(field(1, name.encode()) if name else b"", timeout=10)
    assert ask("echo") == ask("sluice.demo.Echo") == field(1, 1)
    assert ask("dead") == ask("sluice.demo.Dead") == ask("") == field(1, 2)
    fails(grpc.StatusCode.NOT_FOUND, ask, "nobody")
    fails(grpc.StatusCode.NOT_FOUND, ask, "n" * 5000)
    several = ch.stream_unary("/grpc.health.v1.Health/Check")
    fails(grpc.StatusCode.UNIMPLEMENTED, several, iter([b"", b""]), timeout=10)
    fails(grpc.StatusCode.UNIMPLEMENTED, several, iter([]), timeout=10)


@case
def health_watch(ch):
    watch = lambda name: ch.unary_stream("/grpc.health.v1.Health/Watch")(field(1, name.encode()), timeout=30)
    watches = {n: watch(n) for n in ("echo", "sluice.demo.Dead", "nobody")}
    assert [next(w) for w in watches.values()] == [field(1, 1), field(1, 2), field(1, 3)]
    echoes(ch, 10)
    time.sleep(4)  # beyond every time-out of this gateway: a watch is no idle connection
    assert all(w.is_active() for w in watches.values())
    for w in watches.values():
        w.cancel()
        fails(grpc.StatusCode.CANCELLED, next, w)
    assert next(watch("echo")) == field(1, 1)


@case
def many_watches_leave_checks_alone(ch):
    """33 connections with 128 watches each, more than there is room for."""
    check = unary(ch, "/grpc.health.v1.Health/Check")
    many, calls = [], []
    for _ in range(33):
        many.append(dial([("grpc.use_local_subchannel_pool", 1)]))
        watch = many[-1].unary_stream("/grpc.health.v1.Health/Watch")
        calls += [watch(field(1, b"echo"), timeout=60) for _ in range(128)]
    taken = 0
    for i, c in enumerate(calls):
        try:
            assert next(c) == field(1, 1)
            taken += 1
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, e
        if i % 128 == 0:
            assert check(field(1, b"echo"), timeout=10) == field(1, 1)
    assert taken == 33 * 4, taken
    for m in many:
        m.close()


class Reflection:
    """One stream of it: a question is asked when the answer to the last one is there, unless told otherwise."""

    def __init__(self, ch, version="v1"):
        self.questions = queue.Queue()
        self.answers = ch.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")(
            iter(self.questions.get, None), timeout=60)

    def send(self, no, what, host=""):
        question = (field(1, host.encode()) if host else b"") + field(no, what if isinstance(what, bytes) else what.encode())
        self.questions.put(question)
        return question

    def receive(self, question, host=""):
        answer = message(next(self.answers))
        assert answer.pop(2) == [question], answer
        assert answer.pop(1, [b""]) == [host.encode()], answer
        assert len(answer) == 1, answer
        return answer.popitem()

    def ask(self, no, what, host=""):
        return self.receive(self.send(no, what, host), host)

    def file(self, no, what):
        kind, (body,) = self.ask(no, what)
        assert kind == 4, (kind, body)
        (proto,) = message(body)[1]
        return descriptor_pb2.FileDescriptorProto.FromString(proto)

    def error(self, no, what):
        kind, (body,) = self.ask(no, what)
        assert kind == 7, (kind, body)
        return message(body)[1][0]

    def close(self):
        self.questions.put(None)
        assert list(self.answers) == []


def message(data):
    """The fields of a protobuf message of numbers and bytes: {number: [value]}."""
    out, at = {}, 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            b = data[at]
            at += 1
            n |= (b & 127) << shift
            shift += 7
            if b < 128:
                return n

    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            at += value
            value = data[at - value:at]
        out.setdefault(key >> 3, []).append(value)
    return out


SERVICES = {b"grpc.health.v1.Health", b"grpc.reflection.v1.ServerReflection", b"grpc.reflection.v1alpha.ServerReflection",
            b"grpc.testing.TestService", b"sluice.test.Things"}


@case
def reflection_v1_and_v1alpha(ch):
    for version in ("v1", "v1alpha"):
        r = Reflection(ch, version)
        kind, (body,) = r.ask(7, "", host="somewhere")
        assert kind == 6
        assert {message(s)[1][0] for s in message(body)[1]} == SERVICES, body
        for symbol in ("grpc.testing.TestService", "grpc.testing.TestService.UnaryCall", "grpc.testing.Payload",
                       "grpc.testing.Payload.body"):
            f = r.file(4, symbol)
            assert f.name == "interop.proto" and f.service[0].method[1].name == "UnaryCall", f
        assert r.file(3, "interop.proto").package == "grpc.testing"
        assert r.file(4, "grpc.health.v1.Health").service[0].method[1].server_streaming
        assert r.file(4, "grpc.reflection.%s.ServerReflection" % version).name == "grpc/reflection/%s/reflection.proto" % version
        for no, what in ((3, "nowhere.proto"), (4, "grpc.testing"), (4, "grpc.testing.Nothing"), (4, ""), (6, "no.Type")):
            assert r.error(no, what) == 5, (no, what)
        assert r.error(9, "x") == 3
        r.close()


@case
def reflection_of_extensions_and_imports(ch):
    r = Reflection(ch)
    ext = lambda name, no: field(1, name.encode()) + field(2, no)
    assert r.file(5, ext("sluice.test.Open", 100)).name == "things.proto"
    assert r.file(5, ext("sluice.test.Open", 150)).name == "things.proto"
    assert r.error(5, ext("sluice.test.Open", 101)) == 5
    kind, (body,) = r.ask(6, "sluice.test.Open")
    assert kind == 5 and message(body) == {1: [b"sluice.test.Open"], 2: [100, 150]}, body
    kind, (body,) = r.ask(6, "sluice.test.Inner")
    assert kind == 5 and message(body) == {1: [b"sluice.test.Inner"]}, body
    # A client discovers a service: the file, and then its imports.
    pool, todo = descriptor_pool.DescriptorPool(), [r.file(4, "sluice.test.Things")]
    files = []
    while todo:
        f = todo.pop()
        files.insert(0, f)
        todo += [r.file(3, name) for name in f.dependency]
    for f in files:
        pool.Add(f)
    method = pool.FindServiceByName("sluice.test.Things").methods_by_name["Do"]
    assert method.input_type.full_name == "sluice.test.Inner"
    r.close()


@case
def reflection_asked_ahead(ch):
    r = Reflection(ch)
    asked = [(r.send(4, "grpc.testing.TestService" if i % 3 else "no.%d" % i), i % 3) for i in range(1000)]
    for question, there in asked:
        assert r.receive(question)[0] == (4 if there else 7)
    r.close()


@case
def reflection_misused(ch):
    info = ch.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
    assert list(info(iter([]), timeout=10)) == []
    for data, code in ((b"\xff", grpc.StatusCode.INVALID_ARGUMENT), (bytes(9000), grpc.StatusCode.RESOURCE_EXHAUSTED)):
        fails(code, lambda: list(info(iter([data]), timeout=10)))
    fails(grpc.StatusCode.UNIMPLEMENTED, unary(ch, "/grpc.reflection.v1.ServerReflection/Other"), b"", timeout=10)


def follow(ch, name):
    """Prints what a watch is told, and how it ends."""
    try:
        for status in ch.unary_stream("/grpc.health.v1.Health/Watch")(field(1, name.encode())):
            print(message(status)[1][0], flush=True)
        print("OK", flush=True)
    except grpc.RpcError as e:
        print(e.code().name, flush=True)


def main():
    if sys.argv[1] == "--list":
        print("\n".join(CASES))
        return
    with dial(BIG) as ch:
        if sys.argv[2] == "--watch":
            follow(ch, sys.argv[3])
            return
        CASES[sys.argv[2]](ch)


if __name__ == "__main__":
    main()
