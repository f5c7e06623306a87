# SPDX-License-Identifier: Apache-2.0
"""Clients of backends, without a gateway: sluice.Client and sluice.AsyncClient."""
import asyncio
import errno
import os

from . import _client

_PRIORITIES = {"latency": 1, "normal": 2, "bulk": 3}
_TEXT = {
    errno.EHOSTUNREACH: "no server is connected",
    errno.EBUSY: "the servers refuse the call",
    errno.ETIMEDOUT: "the deadline has passed",
    errno.ECONNRESET: "the connection to the server is lost",
    errno.EPROTO: "the server has broken the protocol",
    errno.EREMOTEIO: "the server has failed",
}


class CallError(OSError):
    """A call that has ended without a reply. `errno` says how, as in sluice/client.h."""


class Reply:
    """A reply: status (HTTP), body, headers, content_type, grpc_status, grpc_message, service_us, attempts."""

    __slots__ = ("status", "body", "content_type", "grpc_status", "grpc_message", "headers", "service_us", "attempts")

    def __init__(self, values):
        (self.status, self.body, self.content_type, self.grpc_status, self.grpc_message, self.headers, self.service_us,
         self.attempts) = values

    def header(self, name):
        """Returns the first value of a header or trailer as text; None: there is none."""
        for key, value in self.headers:
            if key == name:
                return value.decode("latin-1")
        return None

    def array(self, dtype, shape=(-1,)):
        """Returns the body as a NumPy array, without a copy."""
        import numpy
        return numpy.frombuffer(self.body, dtype).reshape(shape)

    def __repr__(self):
        return f"<Reply {self.status or self.grpc_status}, {len(self.body)} bytes>"


def _error(code):
    return CallError(-code, _TEXT.get(-code) or os.strerror(-code))


def _reply(values):
    if values[0]:
        raise _error(values[0])
    return Reply(values[1:])


def _head(path, method=None, query=None, authority=None, content_type=None, headers=(), priority="normal", deadline=None,
          idempotent=False, grpc=False):
    if priority not in _PRIORITIES:
        raise ValueError(f"priority: found {priority!r}; allowed: {', '.join(_PRIORITIES)}")
    pairs = headers.items() if hasattr(headers, "items") else headers
    pairs = [(name, value.encode() if isinstance(value, str) else bytes(value)) for name, value in pairs]
    if deadline is not None and not deadline > 0:
        raise ValueError(f"deadline: found {deadline!r}; allowed: seconds above 0")
    return (path, method, query, authority, content_type, pairs, _PRIORITIES[priority],
            0 if deadline is None else max(1, int(deadline * 1e6)), idempotent, grpc)


def _bytes(body):
    return body.encode() if isinstance(body, str) else body


def _rows(bodies):
    """Returns a list of buffers: of an array, its rows."""
    if not hasattr(bodies, "__array_interface__"):
        return [_bytes(body) for body in bodies]
    import numpy
    array = numpy.ascontiguousarray(bodies)
    step = array.nbytes // len(array) if len(array) else 0
    view = memoryview(array.reshape(-1).view("u1"))
    return [view[i * step:(i + 1) * step] for i in range(len(array))]


def _stack(replies, dtype, shape):
    """Returns the bodies as one array, a row per reply."""
    import numpy
    return numpy.stack([reply.array(dtype, shape) for reply in replies])


class _Base(_client.Client):
    def __init__(self, endpoints=None, *, members_file=None, key_file=None, connect_timeout=5.0, max_calls=0, max_reply=0,
                 listen_user=0):
        if endpoints is not None and not isinstance(endpoints, str):
            endpoints = ",".join(endpoints)
        super().__init__(endpoints, members_file, key_file, int(connect_timeout * 1000), max_calls, max_reply, listen_user)


class Client(_Base):
    """Calls backends and waits. Threads may share a client; one that waits lets the others run.

    endpoints: "shm:///path", "rdma://addr:port", "rdma+ud://addr:port" or "tcp://host:port"; a list, or text with commas.
    members_file: instead, a file with one endpoint per line, read again when it changes.

    Keywords of a call: method, query, authority, content_type, headers, priority ("latency", "normal", "bulk"), deadline
    (seconds), idempotent, grpc. A call without a reply raises CallError; an HTTP status is part of the reply.
    """

    def wait_connected(self, timeout=5.0):
        """Waits until a server is connected. Raises CallError with the last error of connecting."""
        line = self._wait_connected(int(timeout * 1000))
        if line is not None:
            raise CallError(errno.ETIMEDOUT, line)

    def call(self, path, body=b"", **keywords):
        """Returns the Reply."""
        return _reply(self._call(_head(path, **keywords), [_bytes(body)])[0])

    def call_batch(self, path, bodies, **keywords):
        """Makes a call for each body, or row of an array. Returns a list of Replies.

        Calls that go to one server travel in one message. With return_errors=True, the list has a CallError for each call
        that has failed; otherwise the first is raised.
        """
        return_errors = keywords.pop("return_errors", False)
        ends = self._call(_head(path, **keywords), _rows(bodies))
        return [_error(end[0]) if end[0] and return_errors else _reply(end) for end in ends]

    def call_rows(self, path, array, dtype, shape=(-1,), **keywords):
        """Makes a call for each row of an array. Returns an array of the replies, each of that type and shape."""
        return _stack(self.call_batch(path, array, **keywords), dtype, shape)

    def stream(self, path, **keywords):
        """Opens a ClientStream."""
        return ClientStream(self, _head(path, **keywords))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class ClientStream(_client.Stream):
    """A call with messages both ways. Iteration gives the messages of the reply; `reply` has its status at the end."""

    reply = None

    def send(self, message, end=False):
        """Sends a message; waits while 64 KiB wait already."""
        message = _bytes(message)
        while not self._send(message, end):
            self._wait_writable()

    def end(self):
        """Ends this side of the stream."""
        self.send(b"", end=True)

    def __iter__(self):
        return self

    def __next__(self):
        parts = []
        while self.reply is None:
            event = self._next(True)
            if event is None or len(event) > 2:
                self.reply = _reply(event)
                break
            parts.append(event[0])
            if event[1] == 0:
                return b"".join(parts)
        raise StopIteration

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.cancel()


class AsyncClient(_Base):
    """Client for asyncio: the methods of Client as coroutines. Cancelling a task cancels its call."""

    def __init__(self, *args, **keywords):
        super().__init__(*args, **keywords)
        self._loop = None
        self._waiting = {}
        self._token = 0

    def _attach(self):
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._fileno(), self._dispatch)
        elif self._loop is not loop:
            raise RuntimeError("the client belongs to another event loop")
        return loop

    def _dispatch(self):
        for token, end in self._take():
            future = self._waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(end)

    async def _ends(self, head, bodies):
        loop = self._attach()
        first = self._token
        self._token += len(bodies)
        futures = [loop.create_future() for _ in bodies]
        self._waiting.update(enumerate(futures, first))
        try:
            numbers = self._submit(head, bodies, first)
        except BaseException:
            for token in range(first, first + len(bodies)):
                del self._waiting[token]
            raise
        try:
            return [await future for future in futures]
        except asyncio.CancelledError:
            for number in numbers:
                self._cancel(number)
            raise

    async def wait_connected(self, timeout=5.0):
        """Waits until a server is connected. Raises CallError with the last error of connecting."""
        line = await asyncio.to_thread(self._wait_connected, int(timeout * 1000))
        if line is not None:
            raise CallError(errno.ETIMEDOUT, line)

    async def call(self, path, body=b"", **keywords):
        """Returns the Reply."""
        return _reply((await self._ends(_head(path, **keywords), [_bytes(body)]))[0])

    async def call_batch(self, path, bodies, **keywords):
        """Same as Client.call_batch()."""
        return_errors = keywords.pop("return_errors", False)
        ends = await self._ends(_head(path, **keywords), _rows(bodies))
        return [_error(end[0]) if end[0] and return_errors else _reply(end) for end in ends]

    async def call_rows(self, path, array, dtype, shape=(-1,), **keywords):
        """Same as Client.call_rows()."""
        return _stack(await self.call_batch(path, array, **keywords), dtype, shape)

    def stream(self, path, **keywords):
        """Opens an AsyncClientStream."""
        return AsyncClientStream(self, _head(path, **keywords))

    def close(self):
        """Ends all calls with CallError, and frees the client."""
        super().close()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fileno())
            self._dispatch()
        self._loop = None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *unused):
        self.close()


class AsyncClientStream(_client.Stream):
    """ClientStream for asyncio: `await stream.send()`, `async for message in stream`."""

    reply = None

    async def send(self, message, end=False):
        """Sends a message; waits while 64 KiB wait already."""
        message = _bytes(message)
        while not self._send(message, end):
            await asyncio.to_thread(self._wait_writable)

    async def end(self):
        """Ends this side of the stream."""
        await self.send(b"", end=True)

    async def _event(self):
        loop = asyncio.get_running_loop()
        while (event := self._next(False)) is None:
            ready = loop.create_future()
            loop.add_reader(self._fileno(), lambda: ready.done() or ready.set_result(None))
            try:
                await ready
            finally:
                loop.remove_reader(self._fileno())
        return event

    def __aiter__(self):
        return self

    async def __anext__(self):
        parts = []
        while self.reply is None:
            event = await self._event()
            if len(event) > 2:
                self.reply = _reply(event)
                break
            parts.append(event[0])
            if event[1] == 0:
                return b"".join(parts)
        raise StopAsyncIteration

    async def __aenter__(self):
        return self

    async def __aexit__(self, *unused):
        self.cancel()
