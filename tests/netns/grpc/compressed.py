# SPDX-License-Identifier: Apache-2.0
"""gRPC's interoperability cases about compression, for a stock grpcio. Usage: compressed.py --list | ADDRESS CASE

A Python program cannot see whether a message came compressed, so lengths tell it. A message of LONG zeros is too long for
the gateway in either direction; compressed it has some kilobytes.
"""
import os
import sys

import grpc

from cases import BIG, TEST, fails, field

CASES = {}
GZIP = grpc.Compression.Gzip
# One side has max_message = 16m (a client), the other 64 MiB (a reply): see tests/netns/agent/interop.sh.
LONG, LONG_REPLY = 17 << 20, 65 << 20
RAW = {"request_serializer": None, "response_deserializer": None}
TRUE = field(1, 1)  # BoolValue


def case(fn):
    CASES[fn.__name__] = fn
    return fn


def call(ch, name, request, **kw):
    return ch.unary_unary(TEST + name, **RAW)(request, timeout=60, **kw)


def payload(n):
    return field(1, field(2, bytes(n)))


@case
def client_compressed_unary(ch):
    large = field(2, 314159) + field(3, field(2, bytes(271828)))
    for compression in (GZIP, grpc.Compression.Deflate, grpc.Compression.NoCompression):
        assert call(ch, "UnaryCall", large, compression=compression) == payload(314159)
    long = field(2, 10) + field(3, field(2, bytes(LONG)))
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, call, ch, "UnaryCall", long)
    assert call(ch, "UnaryCall", long, compression=GZIP) == payload(10)
    noise = field(3, field(2, os.urandom(1 << 20)))  # longer when it is compressed, so it goes plain or not
    assert call(ch, "UnaryCall", noise, compression=GZIP) == payload(0)


@case
def server_compressed_unary(ch):
    for compressed in (field(6, TRUE), b""):
        assert call(ch, "UnaryCall", field(2, 314159) + compressed) == payload(314159)
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, call, ch, "UnaryCall", field(2, LONG_REPLY))
    assert call(ch, "UnaryCall", field(2, LONG_REPLY) + field(6, TRUE)) == payload(LONG_REPLY)


@case
def client_compressed_streaming(ch):
    def total(sizes, **kw):
        requests = iter([field(1, field(2, bytes(n))) for n in sizes])
        return ch.stream_unary(TEST + "StreamingInputCall", **RAW)(requests, timeout=60, **kw)

    assert total((27182, 45904), compression=GZIP) == field(1, 73086)
    assert total((27182, 45904)) == field(1, 73086)
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, total, (10, LONG))
    assert total((LONG, 0, 1, LONG), compression=GZIP) == field(1, 2 * LONG + 1)
    # Some megabytes, in many pieces.
    noise = [field(1, field(2, os.urandom(3 << 20) + bytes(3 << 20))) for _ in range(3)]
    sum_of = ch.stream_unary(TEST + "StreamingInputCall", **RAW)(iter(noise), timeout=60, compression=GZIP)
    assert sum_of == field(1, 18 << 20)


@case
def server_compressed_streaming(ch):
    def output(*sizes, **kw):  # (size, compressed)
        request = b"".join(field(2, field(1, n) + (field(3, TRUE) if c else b"")) for n, c in sizes)
        return ch.unary_stream(TEST + "StreamingOutputCall", **RAW)(request, timeout=60, **kw)

    sizes = ((31415, True), (92653, False), (10, True), (300000, False), (1 << 20, True))
    assert list(output(*sizes)) == [payload(n) for n, _ in sizes]
    assert list(output((LONG_REPLY, True), (5, False))) == [payload(LONG_REPLY), payload(5)]
    replies = output((5, True), (LONG_REPLY, False))
    assert next(replies) == payload(5)
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, next, replies)


@case
def both_ways(ch):
    requests = [field(2, field(1, n) + field(3, TRUE)) + field(3, field(2, bytes(LONG))) for n in (9, 100000, 1)]
    got = ch.stream_stream(TEST + "FullDuplexCall", **RAW)(iter(requests), timeout=60, compression=GZIP)
    assert list(got) == [payload(n) for n in (9, 100000, 1)]


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(CASES))
        sys.exit()
    with grpc.insecure_channel(sys.argv[1], options=BIG) as channel:
        CASES[sys.argv[2]](channel)
