# SPDX-License-Identifier: Apache-2.0
"""The gRPC cases of the netns tests, for a stock grpcio. Usage: grpc_cases.py --list | ADDRESS CASE"""
import os
import sys
import threading
import time

import grpc

ECHO = "/sluice.demo.Echo/Echo"
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


@case
def empty_unary(ch):
    assert unary(ch)(b"", timeout=10) == b""


@case
def large_unary(ch):
    echoes(ch, 271828)
    echoes(ch, 314159)


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
    # The echo backend returns what it is told to return.
    sent = [("x-sluice-echo-initial", "test_initial_metadata_value"), ("x-sluice-echo-trailing-bin", b"\xab\x00\xff\n")]
    reply, call = unary(ch).with_call(b"x", metadata=sent, timeout=10)
    assert reply == b"x"
    first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
    assert first.get("x-sluice-echo-initial") == "test_initial_metadata_value", first
    assert last.get("x-sluice-echo-trailing-bin") == b"\xab\x00\xff\n", last


@case
def metadata_that_is_not_asked_for_is_not_sent(ch):
    _, call = unary(ch).with_call(b"x", metadata=[("a-key", "b")], timeout=10)
    assert "a-key" not in dict(call.initial_metadata())


@case
def status_code_and_message(ch):
    md = [("x-sluice-status", "2"), ("x-sluice-message", "test status message")]
    e = fails(grpc.StatusCode.UNKNOWN, unary(ch), b"x", metadata=md, timeout=10)
    assert e.details() == "test status message", e.details()


@case
def special_status_message(ch):
    text = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
    md = [("x-sluice-status", "2"), ("x-sluice-message-bin", text.encode())]
    e = fails(grpc.StatusCode.UNKNOWN, unary(ch), b"x", metadata=md, timeout=10)
    assert e.details() == text, repr(e.details())


@case
def every_status(ch):
    for code in grpc.StatusCode:
        if code != grpc.StatusCode.OK:
            fails(code, unary(ch), b"x", metadata=[("x-sluice-status", str(code.value[0]))], timeout=10)


@case
def unimplemented_method(ch):
    md = [("x-sluice-status", "12")]
    fails(grpc.StatusCode.UNIMPLEMENTED, unary(ch), b"x", metadata=md, timeout=10)


@case
def unimplemented_service(ch):
    fails(grpc.StatusCode.UNIMPLEMENTED, unary(ch, "/no.such.Service/Method"), b"x", timeout=10)


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


def main():
    if sys.argv[1] == "--list":
        print("\n".join(CASES))
        return
    with grpc.insecure_channel(sys.argv[1], options=BIG) as ch:
        CASES[sys.argv[2]](ch)


main()
