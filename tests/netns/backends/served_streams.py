# SPDX-License-Identifier: Apache-2.0
"""The backend of python-streams.sh, served_streams.py ENDPOINT: what it does with a stream is its path."""
import asyncio
import warnings
import sys

import sluice

cancelled = []
woken = {}


async def echo(stream):
    async for part in stream:
        assert await stream.reply(part, more=True)


async def total(stream):
    n = 0
    async for part in stream:
        n += len(part)
    await stream.reply(b"%d" % n, content_type="text/plain", headers={"x-path": stream.request.path})


async def asked(stream):
    """Resumes the body of a stream that waits for it."""
    expects = stream.request.expect_continue
    with warnings.catch_warnings(record=True) as former:
        warnings.simplefilter("always")
        assert stream.request.expects == expects
    assert [w.category for w in former] == [DeprecationWarning], former
    if expects:
        await stream.send_continue()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)
                await stream.go_on()
        except DeprecationWarning:
            pass
        try:
            await stream.send_continue()
        except ValueError:
            expects = "once"
    await stream.reply(repr(expects).encode(), more=True)
    async for part in stream:
        await stream.reply(part, more=True)


def attempt(fn, *args, **keywords):
    try:
        return str(fn(*args, **keywords))
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


async def hints(stream):
    """Interim replies before and after its reply has begun; what is wrong is said with the reply."""
    hint = stream.request.reply_interim
    await stream.reply_interim(headers={"Link": "</a.css>; rel=preload", "x-one": b"1"})
    await stream.reply_interim(status=102)
    wrong = [attempt(hint, status=status) for status in (101, 200)]
    wrong.append(attempt(hint, 103))
    wrong.append(attempt(hint, headers={"x": "y" * 70000}))
    wrong += [attempt(hint, headers=[("n", str(n))]) for n in range(7)]
    await stream.reply(b"begun", more=True)
    wrong.append(attempt(hint))
    await stream.reply("\n".join(wrong).encode())


async def trailers(stream):
    async for _ in stream:
        pass
    await stream.reply(repr(stream.request.trailers).encode())


async def fail(stream):
    raise ValueError("as wanted")


async def break_off(stream):
    await stream.reply(b"begun", more=True)
    raise ValueError("behind its beginning")


async def hold(stream):
    name = stream.request.query  # a request that is over cannot be read
    try:
        await stream.reply(b"held", more=True)
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        cancelled.append(name)
        raise


async def deaf(stream):
    """Reads when it is woken."""
    await woken.setdefault(stream.request.query, asyncio.Event()).wait()
    await total(stream)


async def wake(stream):
    woken.setdefault(stream.request.query, asyncio.Event()).set()


async def flood(stream):
    while await stream.reply(b"x" * 65536, more=True):
        pass


async def told(stream):
    await stream.reply(" ".join(cancelled).encode())


async def last(stream):
    """Is answered although the backend has been told to end: the log says when."""
    print("last", flush=True)
    await asyncio.sleep(0.5)
    await stream.reply(b"answered")


WAYS = {f.__name__: f for f in (echo, total, asked, hints, trailers, fail, break_off, hold, deaf, wake, flood, told, last)}


async def serve(stream):
    name = stream.request.path.rpartition("/")[2]
    await WAYS[name](stream)


def batch(requests):
    for request in requests:
        request.reply(b"whole")


sluice.Backend(sys.argv[1], batch, stream=serve).run()
