# SPDX-License-Identifier: Apache-2.0
"""Backends of sluice in Python: programs that compute replies to batches of requests.

    import sluice

    def handle(batch):
        for request in batch:
            request.reply(request.body)

    sluice.Backend("shm:///run/echo.sock", handle, max_batch=64).run()

The handler runs on the thread that calls run(). Another thread, which is no Python thread, talks
with the gateways meanwhile. With asyncio:

    async for batch in sluice.Backend("shm:///run/echo.sock"):
        for request in batch:
            request.reply(request.body)

What helps a client before the reply is there goes ahead, as 103 (Early Hints):

    request.reply_interim(headers={"link": "</style.css>; rel=preload"})

Streams, requests of routes with `stream = yes`, are coroutines:

    async def chat(stream):
        async for part in stream:
            for word in part.split():
                await stream.reply(word, more=True)

    sluice.Backend("shm:///run/chat.sock", stream=chat).run()

A request and its `body`, a view without a copy, are valid until its reply, and no longer than the
handler; a later use raises ValueError. What still looks at the bytes then, as an array of
numpy.frombuffer() does, stays valid, and the reply waits until it is gone.
"""
import asyncio
import collections
import contextlib
import logging
import signal
import threading

from . import _backend
from ._backend import Request

__all__ = ["Backend", "Batch", "Request", "Stream"]

_log = logging.getLogger("sluice")
_POLL_US = 100_000  # how soon a signal is seen


class Batch(list):
    """The requests of one batch."""

    __slots__ = ()

    def reply(self, array, **keywords):
        """Replies to each request with its row of a C-contiguous array of two or more dimensions.

        Keywords as of Request.reply(), the same for all.
        """
        _backend.reply_rows(self, array, **keywords)


def _where(error):
    """One line about an exception."""
    at, place = error.__traceback__, ""
    while at:
        place = f" ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})"
        at = at.tb_next
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{place}"


class Stream:
    """A request that comes in parts, and may be answered meanwhile.

    request   the Request, without a body

    Parts are those of gRPC: a message each; in HTTP whatever has come together. While nobody reads
    them the client is made to wait. The coroutine that serves a stream is cancelled when its client
    has gone.
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
            if left:  # a message may be longer than what the client may send ahead
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
        """As Request.reply(); with `more` it waits while the client does not take what was said."""
        heard = await self._when_there_is_room(lambda: self.request.reply(body, **keywords))
        self._begun = True
        return heard

    async def reply_interim(self, **keywords):
        """As Request.reply_interim(), before the first part of the reply. It does not wait."""
        self.request.reply_interim(**keywords)

    async def go_on(self):
        """Of one whose request `expects`: its client is told to send the body (status 100)."""
        await self._when_there_is_room(self.request._go_on)


class Backend(_backend.Backend):
    """Listens on an endpoint (several: by commas) and gives batches to a handler.

    listen     "shm:///path", "rdma://address:port", "rdma+ud://address:port" or
               "tcp://host:port"
    handler    called with a Batch; it replies to each request, or returns an array of a row for
               each; what it leaves open, and all that is open when it raises, is answered 500.
               None: the backend is iterated, `async for batch in backend`
    stream     a coroutine function, called with a Stream; what it has not ended when it returns ends
               then, and when it raises is answered 500, or broken off
    max_batch  largest batch for one call; 0: 256
    key_file   of rdma:// and tcp:// peers
    busy_poll  never sleep
    upgrades   streams may go on in other protocols: those that ask have the header upgrade, and are
               agreed to by a first part with status 101; else they are requests like any other

    OSError says what is wrong with an endpoint.
    """

    def __init__(self, listen, handler=None, stream=None, **options):
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

    def stop(self):
        """Ends run() or the iteration, after what has come is answered; any thread.

        A second call ends at once.
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
        why = None
        try:
            rows = self._handler(batch)
            if rows is not None:
                batch.reply(rows)
        except Exception as error:
            why = _where(error)
        finally:
            left, held = _backend.finish(batch)
        if why or left:
            why = why or "the handler did not reply"
            _log.error("%s: %d of %d requests are answered 500", why, left, len(batch))
        if held:
            _log.warning("%d replies wait: the handler has kept arrays over requests, not copies", held)

    @contextlib.contextmanager
    def _signals(self):
        """SIGTERM and SIGINT stop, as long as the main thread serves."""
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
        """Serves until stop(), SIGTERM or SIGINT, answers what has come, and closes."""
        if self._stream is not None:
            asyncio.run(self._serve())
            return
        if self._handler is None:
            raise TypeError("run() wants a handler; without one, `async for batch in backend`")
        try:
            with self._signals():
                while not self._stopped:
                    self._poll(_POLL_US)
                self._drain()
        finally:
            self.close()

    def __aiter__(self):
        """Batches, until stop(), SIGTERM or SIGINT and everything is answered; then closes.

        Requests may be replied to in any order, by any task. One that is dropped without a reply is
        answered 500, when nothing refers to it any more: not the loop's variables either.
        """
        if self._handler is not None:
            raise TypeError("a backend with a handler is not iterated: run() it")
        return self._all_batches()

    async def _serve(self):
        async for batch in self._all_batches():
            if self._handler is not None:
                self._compute(batch)
                continue
            for request in batch:
                request.reply(b"this route wants `stream = yes`\n", status=501, content_type="text/plain")

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
        """False: there was something to do already, or nothing will come any more."""
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
