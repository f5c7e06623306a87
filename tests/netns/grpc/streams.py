# SPDX-License-Identifier: Apache-2.0
"""gRPC's streaming cases, for a stock grpcio. Usage: streams.py --list | ADDRESS CASE"""
import os
import queue
import sys
import threading

import grpc

from cases import TEST, fails, field, with_status

CASES = {}
RAW = {"request_serializer": None, "response_deserializer": None}
BIG = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def case(fn):
    CASES[fn.__name__] = fn
    return fn


def bidi(ch, method="/sluice.demo.Echo/Echo"):
    return ch.stream_stream(method, **RAW)


class Source:
    """Requests that are made while the call is under way."""

    def __init__(self):
        self.q = queue.Queue()

    def __iter__(self):
        return self

    def __next__(self):
        message = self.q.get()
        if message is None:
            raise StopIteration
        return message

    def put(self, message):
        self.q.put(message)

    def end(self):
        self.q.put(None)


def wants(*sizes):
    """StreamingOutputCallRequest."""
    return b"".join(field(2, field(1, n)) for n in sizes)


def payload(n):
    return field(1, field(2, bytes(n)))


@case
def client_streaming(ch):
    sizes = (27182, 8, 1828, 45904)
    call = ch.stream_unary(TEST + "StreamingInputCall", **RAW)
    assert call(iter([field(1, field(2, bytes(n))) for n in sizes]), timeout=20) == field(1, sum(sizes))


@case
def server_streaming(ch):
    sizes = (31415, 9, 2653, 58979)
    got = list(ch.unary_stream(TEST + "StreamingOutputCall", **RAW)(wants(*sizes), timeout=20))
    assert got == [payload(n) for n in sizes]


@case
def ping_pong(ch):
    source = Source()
    call = bidi(ch, TEST + "FullDuplexCall")(source, timeout=20)
    for asked, size in ((27182, 31415), (8, 9), (1828, 2653), (45904, 58979)):
        source.put(wants(size) + field(3, field(2, bytes(asked))))
        assert next(call) == payload(size)
    source.end()
    assert list(call) == []
    assert call.code() == grpc.StatusCode.OK


@case
def empty_stream(ch):
    call = bidi(ch, TEST + "FullDuplexCall")(iter([]), timeout=20)
    assert list(call) == []
    assert call.code() == grpc.StatusCode.OK


@case
def timeout_on_sleeping_server(ch):
    source = Source()
    source.put(b"")
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, list, bidi(ch, TEST + "FullDuplexCall")(source, timeout=0.2))
    source.end()


@case
def deadline_is_the_gateways_too(ch):
    """A client that says a deadline and does not keep it is told."""
    source = Source()
    source.put(b"x")
    call = bidi(ch)(source, metadata=[("grpc-timeout", "5S")], timeout=60)
    assert next(call) == b"x"
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, next, call)
    source.end()


@case
def cancel_after_begin(ch):
    source = Source()
    call = ch.stream_unary(TEST + "StreamingInputCall", **RAW).future(source)
    call.cancel()
    assert call.cancelled()
    source.end()


@case
def cancel_after_first_response(ch):
    source = Source()
    call = bidi(ch, TEST + "FullDuplexCall")(source, timeout=20)
    source.put(wants(31415))
    assert next(call) == payload(31415)
    call.cancel()
    fails(grpc.StatusCode.CANCELLED, next, call)
    source.end()


@case
def custom_metadata_full_duplex(ch):
    sent = [("x-grpc-test-echo-initial", "test_initial_metadata_value"),
            ("x-grpc-test-echo-trailing-bin", b"\x0a\x0b\x0a\x0b\x0a\x0b")]
    call = bidi(ch, TEST + "FullDuplexCall")(iter([wants(314159)]), metadata=sent, timeout=20)
    assert list(call) == [payload(314159)]
    assert sent[0] in [tuple(m) for m in call.initial_metadata()]
    assert sent[1] in [tuple(m) for m in call.trailing_metadata()]


@case
def status_code_and_message_full_duplex(ch):
    call = bidi(ch, TEST + "FullDuplexCall")(iter([with_status(2, "test status message")]), timeout=20)
    e = fails(grpc.StatusCode.UNKNOWN, list, call)
    assert e.details() == "test status message", e.details()


@case
def status_while_the_client_still_sends(ch):
    source = Source()
    call = bidi(ch, TEST + "FullDuplexCall")(source, timeout=20)
    source.put(with_status(10, "enough"))
    e = fails(grpc.StatusCode.ABORTED, list, call)
    assert e.details() == "enough"
    source.end()


@case
def unimplemented_stream(ch):
    fails(grpc.StatusCode.UNIMPLEMENTED, list, bidi(ch, TEST + "NoSuchCall")(iter([b"x"]), timeout=20))


@case
def unary_calls_on_a_route_that_streams(ch):
    assert ch.unary_unary(TEST + "EmptyCall", **RAW)(b"", timeout=20) == b""
    asked = field(2, 314159) + field(3, field(2, bytes(271828)))
    assert ch.unary_unary(TEST + "UnaryCall", **RAW)(asked, timeout=20) == payload(314159)


@case
def words_come_one_by_one(ch):
    source = Source()
    call = bidi(ch, "/sluice.demo.Chat/Talk")(source, timeout=20)
    source.put(b"how are you")
    assert [next(call) for _ in range(3)] == [b"how", b"are", b"you"]
    source.put(b"fine")
    assert next(call) == b"fine"
    source.end()
    assert list(call) == []


@case
def messages_of_all_sizes(ch):
    sizes = (0, 1, 5, 1000, 16379, 65535, 65536, 65537, 300000, 1 << 20, 0, 5 << 20, 3)
    sent = [os.urandom(n) for n in sizes]
    call = bidi(ch)(iter(sent), timeout=60)
    for want in sent:
        got = next(call)
        assert got == want, (len(got), len(want))
    assert list(call) == []


@case
def hundred_streams_at_once(ch):
    errors = []

    def talk(k):
        try:
            source = Source()
            call = bidi(ch)(source, timeout=60)
            for i in range(20):
                source.put(b"%d %d" % (k, i))
                assert next(call) == b"%d %d" % (k, i)
            source.end()
            assert list(call) == []
        except Exception as e:  # whatever it is, the case fails
            errors.append(repr(e))

    threads = [threading.Thread(target=talk, args=(k,)) for k in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[:3]


@case
def slow_reader_stops_its_backend_only(ch):
    flood = bidi(ch, "/sluice.demo.Flood/Talk")(iter([b"word"]), timeout=60)
    assert next(flood) == b"word"
    for i in range(50):
        call = bidi(ch)(iter([b"x" * 1000]), timeout=30)
        assert list(call) == [b"x" * 1000]
    for i in range(5000):
        assert next(flood) == b"word"
    flood.cancel()


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(CASES))
        sys.exit()
    with grpc.insecure_channel(sys.argv[1], options=BIG) as channel:
        CASES[sys.argv[2]](channel)
