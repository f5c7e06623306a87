# SPDX-License-Identifier: Apache-2.0
"""A server of streams for the agent's tests, by hand: stream_server.py ADDRESS:PORT

  POST /echo       each piece of the body comes back as a chunk, at once
  POST /asked      says 100 if that is expected, then what was, and the body
  POST /trailers   the fields behind the body come back
  POST /deaf?NAME  reads nothing of the body until NAME is woken
  POST /early      answers with the head alone read
  GET  /ticks?NAME a chunk each TICK seconds, until the other side closes
  GET  /steps?NAME a chunk for each /step?NAME, until the other side closes
  GET  /step?NAME  see there
  GET  /flood      as many bytes as the other side takes
  GET  /wake?NAME  lets a deaf one read on
  GET  /conns      how many connections there are, and how many wait for a name
  GET  /seen?NAME  what is known of it: JSON
"""
import asyncio
import json
import re
import sys
import time

TICK = 0.1
seen = {}
conns = waiting = 0
wakes = {}
steps = {}


class Body:
    """The pieces of a body as they come."""

    def __init__(self, reader, head):
        fields = dict(re.findall(rb"(?m)^([^:\r\n]+): *([^\r\n]*)", head.lower()))
        self.reader = reader
        self.trailers = b""
        self.expects = fields.get(b"expect", b"")
        self.chunked = fields.get(b"transfer-encoding") == b"chunked"
        self.left = int(fields.get(b"content-length", 0))
        self.framing = "chunked" if self.chunked else f"length {self.left}"

    async def __aiter__(self):
        while self.chunked:
            n = int(await self.reader.readuntil(b"\r\n"), 16)
            while not n:
                line = await self.reader.readuntil(b"\r\n")
                if line == b"\r\n":
                    return
                self.trailers += line
            data = await self.reader.readexactly(n + 2)
            assert data.endswith(b"\r\n")
            yield data[:-2]
        while self.left:
            data = await self.reader.read(min(self.left, 65536))
            if not data:
                raise EOFError
            self.left -= len(data)
            yield data


async def answer(reader, writer, head):
    global waiting
    method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
    path, _, name = target.partition("?")
    body = Body(reader, head)

    def whole(status, data):
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(data), data))

    def begin():
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Framing: %s\r\n\r\n" % body.framing.encode())

    if path == "/echo":
        begin()
        async for data in body:
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
    elif path == "/asked":
        got = body.expects
        for _ in range(3 if got else 0):  # once is enough
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async for data in body:
            got += data
        whole(b"200 OK", got)
    elif path == "/trailers":
        async for data in body:
            assert not body.trailers
        whole(b"200 OK", body.trailers)
    elif path == "/deaf":
        note = seen[name] = {"read": 0, "end": None}
        waiting += 1
        await wakes.setdefault(name, asyncio.Event()).wait()
        waiting -= 1
        try:
            async for data in body:
                note["read"] += len(data)
            note["end"] = "whole"
        except (EOFError, ConnectionError, asyncio.IncompleteReadError):
            note["end"] = "broken"
            raise
        whole(b"200 OK", b"%d" % note["read"])
    elif path == "/early":
        whole(b"403 Forbidden", b"no")
        await writer.drain()
        return False
    elif path == "/ticks":
        note = seen[name] = {"ticks": 0, "gone": None}
        begin()
        gone = asyncio.ensure_future(reader.read())
        while True:
            note["ticks"] += 1
            writer.write(b"4\r\ntick\r\n")
            done, _ = await asyncio.wait([gone], timeout=TICK)
            if done:
                note["gone"] = time.monotonic()
                return False
    elif path == "/steps":
        note = seen[name] = {"parts": 0, "gone": False}
        steps[name] = asyncio.Queue()
        begin()
        gone = asyncio.ensure_future(reader.read())
        while True:
            step = asyncio.ensure_future(steps[name].get())
            await asyncio.wait([gone, step], return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                step.cancel()
                note["gone"] = True
                return False
            note["parts"] += 1
            writer.write(b"4\r\npart\r\n")
    elif path == "/step":
        steps[name].put_nowait(None)
        whole(b"200 OK", b"")
    elif path == "/flood":
        begin()
        while True:
            writer.write(b"10000\r\n%s\r\n" % (b"x" * 65536))
            await writer.drain()
    elif path == "/wake":
        wakes.setdefault(name, asyncio.Event()).set()
        whole(b"200 OK", b"")
    elif path == "/conns":
        whole(b"200 OK", json.dumps([conns, waiting]).encode())
    elif path == "/seen":
        whole(b"200 OK", json.dumps(seen.get(name)).encode())
    else:
        whole(b"404 Not Found", b"")
    await writer.drain()
    return True


async def serve(reader, writer):
    global conns
    conns += 1
    writer.transport.set_write_buffer_limits(high=65536)
    try:
        while await answer(reader, writer, await reader.readuntil(b"\r\n\r\n")):
            pass
    except (EOFError, ConnectionError, asyncio.IncompleteReadError):
        pass
    conns -= 1
    writer.close()


async def main():
    host, port = sys.argv[1].rsplit(":", 1)
    server = await asyncio.start_server(serve, host, int(port), backlog=1024, limit=65536)
    print("listening", flush=True)
    await server.serve_forever()


asyncio.run(main())
