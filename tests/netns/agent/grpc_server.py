# SPDX-License-Identifier: Apache-2.0
"""A stock grpcio server for the agent's tests: grpc_server.py ADDRESS:PORT"""
import sys
import threading
import time
from concurrent import futures

import grpc

active = {}  # name -> when the call was seen to be over
walks = {}  # name -> Walk


def echo(request, context):
    md = context.invocation_metadata()
    for k, v in md:
        if k == "x-echo-initial":
            context.send_initial_metadata((("x-echo-initial", v),))
    context.set_trailing_metadata(tuple((k, v) for k, v in md if k == "x-echo-trailing-bin"))
    return request


def metadata(request, context):
    return "\n".join("%s=%r" % (k, v) for k, v in context.invocation_metadata()).encode()


def status(request, context):
    code, _, text = request.partition(b" ")
    context.set_trailing_metadata((("grpc-status-details-bin", b"\x08\x05\x12\x00\xff"),))
    context.abort([c for c in grpc.StatusCode if c.value[0] == int(code)][0], text.decode())


def size(request, context):
    return b"x" * int(request)


def left(request, context):
    t = context.time_remaining()
    return b"none" if t is None or t > 1e9 else b"%.3f" % t


def wait(request, context):
    gone = threading.Event()
    context.add_callback(gone.set)
    active[request] = None
    gone.wait(30)
    active[request] = (time.monotonic(), context.is_active())
    return b""


def state(request, context):
    return repr(active.get(request, "unknown")).encode()


def count(request, context):
    for i in range(int(request)):
        yield b"message %d" % i


class Walk:
    def __init__(self, context):
        self.context, self.due, self.said, self.over = context, threading.Semaphore(0), 0, False


def steps(request, context):
    """Sends a message for each step() of its name, as long as the client reads."""
    walk = walks[request] = Walk(context)
    try:
        while walk.due.acquire(timeout=60) and context.is_active():
            walk.said += 1
            yield b"%d" % walk.said
    finally:
        walk.over = True


def step(request, context):
    if request not in walks:
        return b"unknown"
    walks[request].due.release()
    return b""


def walked(request, context):
    """Returns the number of messages, whether the client reads on, and whether there will be no more."""
    walk = walks[request]
    return b"%d %d %d" % (walk.said, walk.context.is_active(), walk.over)


def total(requests, context):
    return b"%d" % sum(len(r) for r in requests)


def talk(requests, context):
    """Each message comes back; "status N" ends the call there, whatever the client says."""
    context.send_initial_metadata((("x-talk", "begun"),))
    n = 0
    for r in requests:
        n += 1
        if r.startswith(b"status "):
            context.set_trailing_metadata((("x-said", "%d" % n),))
            context.abort([c for c in grpc.StatusCode if c.value[0] == int(r[7:])][0], "enough")
        yield r
    context.set_trailing_metadata((("x-said", "%d" % n),))


def hold(requests, context):
    """Sends a message and waits until the call is cancelled; reads the first of the client's messages."""
    name = next(requests)
    gone = threading.Event()

    def note():  # some calls end at a yield and never get behind it
        active[name] = (time.monotonic(), context.is_active())
        gone.set()

    active[name] = None
    context.add_callback(note)
    yield b"held"
    gone.wait(30)


def health_watch(request, context):
    """NOT_SERVING, then SERVING."""
    yield b"\x08\x02"
    yield b"\x08\x01"


def reflect(requests, context):
    """An error of the server's own to whatever is asked."""
    for r in requests:
        yield b"\x12" + bytes([len(r)]) + r + b"\x3a\x04\x08\x2a\x12\x00"


def main():
    server = grpc.server(futures.ThreadPoolExecutor(64), options=[("grpc.max_receive_message_length", -1),
                                                                  ("grpc.max_send_message_length", -1)])
    unary = {f.__name__: grpc.unary_unary_rpc_method_handler(f) for f in (echo, metadata, status, size, left, wait, state, step, walked)}
    unary["count"] = grpc.unary_stream_rpc_method_handler(count)
    unary["steps"] = grpc.unary_stream_rpc_method_handler(steps)
    unary["total"] = grpc.stream_unary_rpc_method_handler(total)
    unary["talk"] = grpc.stream_stream_rpc_method_handler(talk)
    unary["hold"] = grpc.stream_stream_rpc_method_handler(hold)
    # The same twice: on a route that streams, and on one that does not.
    for service in ("t.S", "t.Stream"):
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, unary),))
    # Answers that the gateway would not give.
    health = {"Check": grpc.unary_unary_rpc_method_handler(lambda rq, c: b"\x08\x01" + rq),
              "Watch": grpc.unary_stream_rpc_method_handler(health_watch)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", health),))
    for version in ("v1", "v1alpha"):
        reflection = {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(reflect)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"grpc.reflection.{version}.ServerReflection", reflection),))
    server.add_insecure_port(sys.argv[1])
    server.start()
    print("listening", flush=True)
    server.wait_for_termination()


main()
