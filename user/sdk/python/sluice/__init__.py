# SPDX-License-Identifier: Apache-2.0
"""Backends of sluice in Python: programs that reply to batches of requests. And their clients (Client, AsyncClient).

    import sluice

    def handle(batch):
        for request in batch:
            request.reply(request.body)

    sluice.Backend("shm:///run/echo.sock", handle, max_batch=64).run()

The handler runs in the thread that calls run(). A thread of the C library does the I/O. With
asyncio:

    async for batch in sluice.Backend("shm:///run/echo.sock"):
        for request in batch:
            request.reply(request.body)

An interim reply, such as 103 (Early Hints), can precede the reply:

    request.reply_interim(headers={"link": "</style.css>; rel=preload"})

A coroutine serves each stream, a request of a route with `stream = yes`:

    async def chat(stream):
        async for part in stream:
            for word in part.split():
                await stream.reply(word, more=True)

    sluice.Backend("shm:///run/chat.sock", stream=chat).run()

A handler can instead return the replies, as an array with a row per request or a list of bytes:

    def handle(batch):
        return model(batch.stack("<f4", (8,)))

A request and its `body`, a view without a copy, are valid until the reply and at most until the
handler returns. Later use raises ValueError. Objects that still have a buffer of the bytes, such as
an array of numpy.frombuffer(), stay valid, and delay the reply until they are gone.
"""
import asyncio
import collections
import contextlib
import logging
import math
import signal
import threading
import time
import warnings

from . import _backend
from ._backend import Request
from ._calls import AsyncClient, AsyncClientStream, CallError, Client, ClientStream, Reply

__all__ = ["AsyncClient", "AsyncClientStream", "Backend", "Batch", "CallError", "Client", "ClientStream", "Reply", "Request",
           "Stream"]

_log = logging.getLogger("sluice")
_GRPC = 2  # Request.protocol
_POLL_US = 100_000  # delay of signal handling


class Batch(list):
    """The requests of one batch."""

    __slots__ = ()

    def reply(self, replies, **keywords):
        """Replies to each request of the batch.

        replies   a C-contiguous array with a row for each request; a list or tuple with a
                  bytes-like object for each; or bytes: the same reply to each
        keywords  those of Request.reply(), the same for all

        Raises ValueError if the number of replies differs from that of the requests.
        """
        if isinstance(replies, (bytes, bytearray)):
            replies = [replies] * len(self)
        if not isinstance(replies, (list, tuple)):
            _backend.reply_rows(self, replies, **keywords)
            return
        if len(replies) != len(self):
            raise ValueError(f"a reply to a batch: expected {len(self)} replies, found {len(replies)}")
        for request, body in zip(self, replies):
            request.reply(body, **keywords)

    def stack(self, dtype, shape=()):
        """Returns a copy of the bodies as a NumPy array of shape (len(batch), *shape).

        A request whose body is not exactly one array of `dtype` and `shape` is answered 400 (gRPC:
        INVALID_ARGUMENT) and removed from the batch. The batch may be empty afterwards.
        """
        import numpy as np

        item = np.dtype(dtype)
        if item.hasobject:
            raise TypeError("dtype: expected one without Python objects")
        shape = tuple(shape)
        row = item.itemsize * math.prod(shape)
        unfit = [request for request in self if len(request.body) != row]
        if unfit:
            self[:] = [request for request in self if len(request.body) == row]
        for request in unfit:
            _refuse(request, f"body: expected {row} bytes ({item} of shape {shape}), found {len(request.body)}")
        array = np.empty((len(self), *shape), item)
        rows = array.reshape(len(self), -1).view("u1") if len(self) and row else ()
        for into, request in zip(rows, self):
            into[:] = np.frombuffer(request.body, "u1")
        return array


def _warn_former(name, now):
    warnings.warn(f"{name} is deprecated; use {now}", DeprecationWarning, stacklevel=3)


def _refuse(request, why):
    if request.protocol == _GRPC:
        request.reply(status=400, grpc_status=3, grpc_message=why, no_message=True)
    else:
        request.reply(why.encode() + b"\n", status=400, content_type="text/plain")


def _where(error):
    """Returns one line that describes an exception."""
    at, place = error.__traceback__, ""
    while at:
        place = f" ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})"
        at = at.tb_next
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{place}"


class _Failures:
    """Logs failed requests, at most one line a second after a burst of five."""

    _BURST = 5

    def __init__(self):
        self._tokens, self._at, self._unsaid = self._BURST, time.monotonic(), 0

    def report(self, errors, left, count):
        now = time.monotonic()
        self._tokens, self._at = min(self._BURST, self._tokens + now - self._at), now
        if self._tokens < 1:
            self._unsaid += left
            return
        self._tokens -= 1
        more = f"; {self._unsaid} more since the last line" if self._unsaid else ""
        why = errors[-1] if errors else "the handler did not reply"
        _log.error("%s: %d of %d requests are answered 500%s", why, left, count, more)
        self._unsaid = 0


class Stream:
    """A request that arrives in parts, and may be answered meanwhile.

    request   the Request, without a body

    A part is a message in gRPC, and any number of bytes in HTTP. Unread parts delay the client. The
    coroutine that serves a stream is cancelled when its client has gone.
    """

    def __init__(self, request):
        self.request = request
        self._parts = collections.deque()
        self._message = []
        self._ended = self._begun = False
        self._changed = asyncio.Event()
        self._task = None

    def _hear(self, kind, data, left):
        if kind == "data":
            self._message.append(data)
            if left:  # a message may be longer than the window
                self.request._taken(len(data))
            else:
                self._parts.append((b"".join(self._message), len(data)))
                self._message.clear()
        self._ended |= kind in ("end", "cancel")
        if kind == "cancel" and self._task:
            self._task.cancel()
        self._changed.set()

    def __aiter__(self):
        return self

    async def __anext__(self):
        while not self._parts:
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        part, kept = self._parts.popleft()
        self.request._taken(kept)
        return part

    async def _when_there_is_room(self, call):
        while True:
            self._changed.clear()
            try:
                return call()
            except BlockingIOError:
                await self._changed.wait()

    async def reply(self, body=b"", **keywords):
        """Like Request.reply(). With `more` it waits while the client does not read."""
        is_open = await self._when_there_is_room(lambda: self.request.reply(body, **keywords))
        self._begun = True
        return is_open

    async def reply_interim(self, **keywords):
        """Like Request.reply_interim(), before the first part of the reply. Does not wait."""
        self.request.reply_interim(**keywords)

    async def send_continue(self):
        """Sends 100 (Continue), if the request has `expect_continue`."""
        await self._when_there_is_room(self.request._send_continue)

    async def go_on(self):
        """Former name of send_continue()."""
        _warn_former("Stream.go_on()", "send_continue()")
        await self.send_continue()


class Backend(_backend.Backend):
    """Listens on an endpoint, or several separated by commas, and passes batches to a handler.

    listen     "shm:///path", "rdma://address:port", "rdma+ud://address:port" or
               "tcp://host:port"
    handler    function of a Batch that replies to each request, or returns an argument of
               Batch.reply(). Requests without a reply are answered 500.
               None: the backend is iterated, `async for batch in backend`
    isolate    after an exception, call the handler again with halves of the open requests, so that
               only those that raise are answered 500. False, if requests must not be repeated:
               all are answered 500
    stream     coroutine function of a Stream. Its return ends the reply. An exception before the
               first part is answered 500, a later one breaks the reply off
    max_batch  largest batch; 0: 256
    key_file   shared key of rdma:// and tcp:// peers
    busy_poll  never sleep
    upgrades   allow streams to switch protocols: a request with the header upgrade is accepted by
               a first part with status 101. Otherwise the header is ignored

    Raises OSError for an invalid endpoint.
    """

    def __init__(self, listen, handler=None, stream=None, isolate=True, **options):
        if handler is not None and not callable(handler):
            raise TypeError("handler: expected a function of a batch, or None")
        if stream is not None and not asyncio.iscoroutinefunction(stream):
            raise TypeError("stream: expected a coroutine function of a stream, or None")
        super().__init__(listen, streams=stream is not None, **options)
        self._stream = stream
        self._streams = {}
        self._handler = handler
        self._batches = collections.deque()
        self._stopped = False
        self._isolate = isolate
        self._failures = _Failures()

    def stop(self):
        """Ends run() or the iteration after pending requests are answered. Any thread.

        A second call ends it at once.
        """
        self._stopped = True
        super().stop()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def _handle(self, requests):
        batch = Batch(requests)
        if self._handler is None or self._stream is not None:
            self._batches.append(batch)
        else:
            self._compute(batch)

    def _compute(self, batch):
        requests, errors = list(batch), []
        try:
            self._attempt(batch, errors)
        finally:
            left, held = _backend.finish(requests)
        if left:
            self._failures.report(errors, left, len(requests))
        if held:
            _log.warning("%d replies wait: the handler has kept arrays over requests, not copies", held)

    def _attempt(self, batch, errors):
        """Calls the handler, and after an exception again with each half of the open requests."""
        requests = list(batch)
        try:
            replies = self._handler(batch)
            if replies is not None:
                batch.reply(replies)
            return
        except Exception as error:
            errors.append(_where(error))
        if not self._isolate or len(requests) == 1:
            return
        still = [request for request in requests if request.is_open]
        half = len(still) // 2
        for part in (still[:half], still[half:]):
            if part:
                self._attempt(Batch(part), errors)

    @contextlib.contextmanager
    def _signals(self):
        """Stops on SIGTERM and SIGINT, if called in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {n: signal.signal(n, lambda *_: self.stop()) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for n, handler in before.items():
                signal.signal(n, handler)

    def run(self):
        """Serves until stop(), SIGTERM or SIGINT, answers pending requests, and closes."""
        if self._stream is not None:
            asyncio.run(self._serve())
            return
        if self._handler is None:
            raise TypeError("run() needs a handler; without one, use `async for batch in backend`")
        try:
            with self._signals():
                while not self._stopped:
                    self._poll(_POLL_US)
                self._drain()
        finally:
            self.close()

    def __aiter__(self):
        """Yields batches until stop(), SIGTERM or SIGINT and all replies; then closes.

        Any task may reply, in any order. A request without a reply is answered 500 once no variable
        refers to it, including that of the loop.
        """
        if self._handler is not None:
            raise TypeError("a backend with a handler cannot be iterated; call run()")
        return self._all_batches()

    async def _serve(self):
        async for batch in self._all_batches():
            if self._handler is not None:
                self._compute(batch)
                continue
            for request in batch:
                request.reply(b"this route needs `stream = yes`\n", status=501, content_type="text/plain")

    async def _all_batches(self):
        loop = asyncio.get_running_loop()
        rung = asyncio.Event()
        with self._signals_of(loop):
            loop.add_reader(self.fileno(), rung.set)
            if self._stream is not None:
                loop.add_reader(self._stream_fd(), self._take_events)
            try:
                while True:
                    over = not self._poll() and not await self._sleep(rung) and self._stopped
                    if over and not self._poll():
                        break
                    while self._batches:
                        yield self._batches.popleft()
                    await asyncio.sleep(0)
            finally:
                loop.remove_reader(self.fileno())
                if self._stream is not None:
                    loop.remove_reader(self._stream_fd())
                    self._take_events()
                    await self._end_streams()
        self.close()

    def _take_events(self):
        for kind, request, data, left in self._stream_events():
            if kind == "open":
                stream = self._streams[request] = Stream(request)
                stream._task = asyncio.ensure_future(self._converse(stream))
            elif request in self._streams:
                self._streams[request]._hear(kind, data, left)

    async def _converse(self, stream):
        request = stream.request
        try:
            await self._stream(stream)
            if request.is_open:
                await stream.reply(no_message=True)
        except asyncio.CancelledError:
            if request.is_open:
                request._fail()
        except Exception as error:
            _log.error("%s: a stream is %s", _where(error), "broken off" if stream._begun else "answered 500")
            if request.is_open and stream._begun:
                request._fail()
            elif request.is_open:
                request.reply(status=500, grpc_status=13, grpc_message="the backend failed", no_message=True)
        finally:
            del self._streams[request]

    async def _end_streams(self):
        tasks = [stream._task for stream in self._streams.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _sleep(self, rung):
        """Waits for work. Returns False if there was work, or none can follow."""
        armed = self._arm()
        try:
            if armed:
                await rung.wait()
        finally:
            self._disarm()
            rung.clear()
        return armed

    @contextlib.contextmanager
    def _signals_of(self, loop):
        numbers = ()
        if threading.current_thread() is threading.main_thread():
            numbers = (signal.SIGTERM, signal.SIGINT)
        for n in numbers:
            loop.add_signal_handler(n, self.stop)
        try:
            yield
        finally:
            for n in numbers:
                loop.remove_signal_handler(n)
