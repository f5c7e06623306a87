# SPDX-License-Identifier: Apache-2.0
"""A stock grpcio client of grpc_server.py, which does not know what is between them: unmodified.py TARGET"""
import sys

import grpc
from raw import eventually, expect

channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])


def of(kind, method, service="t.Stream"):
    return getattr(channel, kind)(f"/{service}/{method}")


def fails(code, call, *args, **options):
    try:
        expect("an error", call(*args, **options), code)
    except grpc.RpcError as error:
        expect("status", error.code(), code)
        return error


def unary(service):
    echo = of("unary_unary", "echo", service)
    for n in (0, 5, 3000, 1000000):
        body = bytes(range(256)) * (n // 256) + b"x" * (n % 256)
        expect(f"{service}: {n} bytes", echo(body, timeout=60) == body, True)
    _, call = echo.with_call(b"", timeout=60, metadata=(("x-echo-initial", "value"), ("x-echo-trailing-bin", b"\x00\xff")))
    expect("initial", dict(call.initial_metadata()).get("x-echo-initial"), "value")
    expect("trailing", dict(call.trailing_metadata()).get("x-echo-trailing-bin"), b"\x00\xff")
    got = of("unary_unary", "metadata", service)(b"", timeout=60, metadata=(("a", "1"), ("b-bin", b"\xff\x00"), ("a", "2"))).decode()
    expect("order", [line for line in got.split("\n") if line.startswith(("a=", "b-bin="))], ["a='1'", r"b-bin=b'\xff\x00'", "a='2'"])
    error = fails(grpc.StatusCode.NOT_FOUND, of("unary_unary", "status", service), b"5 why", timeout=60)
    expect("message", error.details(), "why")
    expect("details", dict(error.trailing_metadata())["grpc-status-details-bin"], b"\x08\x05\x12\x00\xff")
    fails(grpc.StatusCode.UNIMPLEMENTED, of("unary_unary", "nothing", service), b"", timeout=60)


def streams():
    expect("many back", list(of("unary_stream", "count")(b"50", timeout=60)), [b"message %d" % i for i in range(50)])
    expect("many there", of("stream_unary", "total")(iter([b"x" * 1000] * 50), timeout=60), b"50000")
    call = of("stream_stream", "talk")(iter([b"%d" % i for i in range(30)]), timeout=60)
    expect("both ways", list(call), [b"%d" % i for i in range(30)])
    expect("trailing", dict(call.trailing_metadata())["x-said"], "30")
    error = fails(grpc.StatusCode.FAILED_PRECONDITION, lambda: list(of("stream_stream", "talk")(iter([b"one", b"status 9"]), timeout=60)))
    expect("message", error.details(), "enough")


def deadlines_and_cancellation():
    state = of("unary_unary", "state")
    left = float(of("unary_unary", "left")(b"", timeout=3600))
    expect(f"left of an hour: {left}", 3000 < left <= 3610, True)
    for timeout in (0.5, 4, 16):  # a slow machine needs more for the call to reach the server
        fails(grpc.StatusCode.DEADLINE_EXCEEDED, of("unary_unary", "wait"), b"late", timeout=timeout)
        if state(b"late", timeout=30) != b"unknown":
            break
    expect("the server learns of a deadline", eventually(30, lambda: b"False" in state(b"late", timeout=30)), True)
    held = of("stream_stream", "hold")(iter([b"name"]), timeout=60)
    expect("held", next(held), b"held")
    held.cancel()
    expect("the server learns of a cancel", eventually(30, lambda: b"False" in state(b"name", timeout=30)), True)


for name in ("t.S", "t.Stream"):
    unary(name)
streams()
deadlines_and_cancellation()
