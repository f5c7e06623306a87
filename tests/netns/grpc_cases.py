# SPDX-License-Identifier: Apache-2.0
"""The gRPC cases of the netns tests, for a stock grpcio. Usage: grpc_cases.py --list | ADDRESS CASE"""
import os
import sys
import threading
import time

import grpc

ECHO = "/sluice.demo.Echo/Echo"
TEST = "/grpc.testing.TestService/"
CASES = {}
BIG = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def case(fn):
    CASES[fn.__name__] = fn
    return fn


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
def fixed_reply_is_no_call(ch):
    fails(grpc.StatusCode.UNIMPLEMENTED, unary(ch, "/fixed/Method"), b"x", timeout=10)


@case
def no_backend_is_unavailable(ch):
    fails(grpc.StatusCode.UNAVAILABLE, unary(ch, "/sluice.demo.Dead/Call"), b"x", timeout=10)


@case
def timeout_on_sleeping_server(ch):
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, unary(ch, "/sluice.demo.Slow/Call"), b"x", timeout=0.05)
    assert unary(ch, "/sluice.demo.Slow/Call")(b"y", timeout=20) == b"y"


@case
def cancel_after_begin(ch):
    call = unary(ch, "/sluice.demo.Slow/Call").future(b"x", timeout=20)
    time.sleep(0.05)
    call.cancel()
    assert call.code() == grpc.StatusCode.CANCELLED
    echoes(ch, 10)


@case
def many_cancellations(ch):
    for _ in range(5):
        calls = [unary(ch, "/sluice.demo.Slow/Call").future(b"x", timeout=20) for _ in range(50)]
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
    call = unary(ch)
    fails(grpc.StatusCode.UNIMPLEMENTED, call, b"a" * 10000, compression=grpc.Compression.Gzip, timeout=10)


@case
def reply_in_several_messages(ch):
    call = ch.unary_stream("/sluice.demo.Part/Call")
    for n in (0, 3, 100000):
        body = os.urandom(n)
        assert list(call(body, timeout=20)) == [body] * 3


@case
def health(ch):
    check = unary(ch, "/grpc.health.v1.Health/Check")
    ask = lambda name: check(field(1, name.encode()) if name else b"", timeout=10)
    assert ask("echo") == ask("sluice.demo.Echo") == field(1, 1)
    assert ask("dead") == ask("sluice.demo.Dead") == ask("") == field(1, 2)
    fails(grpc.StatusCode.NOT_FOUND, ask, "nobody")
    fails(grpc.StatusCode.NOT_FOUND, ask, "n" * 5000)
    fails(grpc.StatusCode.UNIMPLEMENTED, lambda: list(ch.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=10)))


def main():
    if sys.argv[1] == "--list":
        print("\n".join(CASES))
        return
    with grpc.insecure_channel(sys.argv[1], options=BIG) as ch:
        CASES[sys.argv[2]](ch)


main()
