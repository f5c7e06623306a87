# SPDX-License-Identifier: Apache-2.0
"""gRPC's interoperability service on a stock grpcio, for tests/netns/grpc's cases: interop_server.py ADDRESS:PORT

Beside grpc.testing.TestService (user/sdk/programs/interop.proto) what those cases ask of the demo's backends.
"""
import sys
import time
from concurrent import futures

import grpc


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of a message: varints, and bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        yield key >> 3, value


def one(data, number, otherwise):
    return dict(fields(data)).get(number, otherwise)


def encode(number, value):
    def digits(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    if isinstance(value, int):
        return digits(number << 3) + digits(value)
    return digits(number << 3 | 2) + digits(len(value)) + value


def payload(size):
    return encode(1, encode(2, bytes(size)))


def echo_metadata(context):
    sent = context.invocation_metadata()
    initial = tuple((k, v) for k, v in sent if k == "x-grpc-test-echo-initial")
    if initial:
        context.send_initial_metadata(initial)
    context.set_trailing_metadata(tuple((k, v) for k, v in sent if k == "x-grpc-test-echo-trailing-bin"))


def obey_status(request, context):
    status = one(request, 7, b"")
    code, text = one(status, 1, 0), one(status, 2, b"").decode()
    if code:
        context.abort(next(c for c in grpc.StatusCode if c.value[0] == code), text)
    context.set_details(text)  # clients are told with OK too


def compress(context, wanted):
    """The next message, or the only one; a call compresses all of them unless it is told of one that it shall not."""
    if not wanted:
        context.disable_next_message_compression()


def unary_call(request, context):
    echo_metadata(context)
    obey_status(request, context)
    compress(context, one(request, 6, b""))
    return payload(one(request, 2, 0))


def output(request, context):
    for number, value in fields(request):
        if number == 2:
            compress(context, one(value, 3, b""))
            yield payload(one(value, 1, 0))
    obey_status(request, context)


def full_duplex(requests, context):
    echo_metadata(context)
    for request in requests:
        yield from output(request, context)


def aggregate(requests, context):
    return encode(1, sum(len(one(one(r, 1, b""), 2, b"")) for r in requests))


def say_again(requests, context):
    yield from requests


def late(requests, context):
    for request in requests:
        time.sleep(0.3)
        yield request


def words(requests, context):
    for request in requests:
        yield from request.split()


def flood(requests, context):
    word = next(requests)
    while context.is_active():
        yield word


def main():
    big = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(256), options=big, compression=grpc.Compression.Gzip)
    unary, bidi = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
    server.add_generic_rpc_handlers(tuple(grpc.method_handlers_generic_handler(*s) for s in (
        ("grpc.testing.TestService", {
            "EmptyCall": unary(lambda request, context: b""),
            "UnaryCall": unary(unary_call),
            "StreamingOutputCall": grpc.unary_stream_rpc_method_handler(output),
            "StreamingInputCall": grpc.stream_unary_rpc_method_handler(aggregate),
            "FullDuplexCall": bidi(full_duplex),
        }),
        ("sluice.demo.Echo", {"Echo": bidi(say_again)}),
        ("sluice.demo.Slow", {"Echo": bidi(late)}),
        ("sluice.demo.Chat", {"Talk": bidi(words)}),
        ("sluice.demo.Flood", {"Talk": bidi(flood)}),
    )))
    server.add_insecure_port(sys.argv[1])
    server.start()
    print("listening", flush=True)
    server.wait_for_termination()


main()
