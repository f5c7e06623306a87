# SPDX-License-Identifier: Apache-2.0
"""Checks of python-client.sh, calls.py NAME ENDPOINT [KEY_FILE]: sluice.Client against the backend called.py."""
import asyncio
import errno
import faulthandler
import gc
import os
import signal
import sys
import threading

import numpy as np
import sluice

faulthandler.enable()
endpoint = sys.argv[2]
options = {"key_file": sys.argv[3]} if sys.argv[3:] else {}


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: found {found!r}; expected {wanted!r}")


def raised(code, what):
    try:
        what()
    except sluice.CallError as error:
        return error.errno == code
    return False


def connected():
    client = sluice.Client(endpoint, **options)
    client.wait_connected(float(os.environ.get("WAIT_S", 60)))
    return client


def call():
    with connected() as client:
        for n in (0, 1, 4097, 1 << 20):
            body = os.urandom(n)
            reply = client.call("/echo", body)
            expect(f"{n} bytes", (reply.status, reply.body == body, reply.attempts), (200, True, 1))
        reply = client.call("/about", method="PUT", query="a=b", headers={"x-one": "uno"}, content_type="x/y")
        expect("reply", (reply.status, reply.body, reply.header("x-two"), reply.header("x-three"), reply.content_type),
               (404, b"PUT a=b uno x/y", "2", None, "text/plain"))
        expect("text", client.call("/echo", "text").body, b"text")
        classes = [client.call("/priority", priority=p).body for p in ("latency", "normal", "bulk")]
        expect("classes", classes, [b"1", b"2", b"3"])
        expect("deadline", raised(errno.ETIMEDOUT, lambda: client.call("/slow", deadline=0.05)), True)
        for wrong in ({"priority": "urgent"}, {"deadline": 0}):
            try:
                sys.exit(f"{wrong}: {client.call('/', **wrong)}")
            except ValueError:
                pass
    try:
        sys.exit(client.call("/"))
    except ValueError as error:
        expect("closed", str(error), "the client is closed")


def batch():
    with connected() as client:
        bodies = [b"%d" % i for i in range(300)]
        expect("bytes", [r.body for r in client.call_batch("/echo", bodies)], bodies)
        sizes = {int(r.body) for r in client.call_batch("/size", [b""] * 200)}
        expect("the batch stays together", sizes, {200})
        rows = np.arange(64, dtype="<f4").reshape(16, 4)
        expect("array", np.array_equal(client.call_rows("/double", rows, "<f4"), rows * 2), True)
        strided = rows[::2, ::2]
        expect("strided array", np.array_equal(client.call_rows("/double", strided, "<f4", (2,)), strided * 2), True)
        mixed = client.call_batch("/slow", [b"", b""], deadline=0.05, return_errors=True)
        expect("errors", [m.errno for m in mixed], [errno.ETIMEDOUT] * 2)


def streams():
    with connected() as client:
        with client.stream("/chat") as chat:
            chat.send(b"one")
            expect("first", next(chat), b"ONE")
            chat.send("two")
            expect("second", next(chat), b"TWO")
            chat.end()
            expect("rest", [m for m in chat if m], [b"end"])
            expect("reply", chat.reply.status, 200)
        # more than the credit both ways, with a slow reader
        with client.stream("/chat") as chat:
            part, count = b"x" * 50000, 40
            writer = threading.Thread(target=lambda: ([chat.send(part) for _ in range(count)], chat.end()))
            writer.start()
            got = b"".join(chat)
            writer.join()
            expect("bytes", (len(got), got[:10]), (len(part) * count + 3, b"X" * 10))
        left = client.stream("/chat")
        left.send(b"dropped")
        del left
        gc.collect()
        expect("afterwards", client.call("/echo", b"a").body, b"a")


def threads():
    """Threads, small switch interval, collector; calls, batches and streams; then close() in the midst."""
    sys.setswitchinterval(1e-6)
    client, failed, closing = connected(), [], threading.Event()

    def work(number):
        try:
            for i in range(60):
                body = b"%d/%d" % (number, i)
                expect("call", client.call("/echo", body).body, body)
                expect("batch", [r.body for r in client.call_batch("/echo", [body] * 5)], [body] * 5)
                if i % 10 == 0:
                    with client.stream("/chat") as chat:
                        chat.send(body, end=True)
                        expect("stream", b"".join(chat), body.upper() + b"end")
        except BaseException as error:
            failed.append(error)

    def hold():
        try:
            while True:
                client.call("/slow")
        except (sluice.CallError, ValueError):
            closing.set()

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expect("failed", failed, [])
    stats = client.stats()
    expect("statistics", (stats["failures"], stats["open_calls"]), (0, 0))
    holders = [threading.Thread(target=hold) for _ in range(3)]
    for holder in holders:
        holder.start()
    client.close()
    for holder in holders:
        holder.join()
    expect("closed", closing.is_set(), True)


def interrupt():
    """A signal handler that raises ends a waiting call."""
    with connected() as client:
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            for _ in range(100):
                client.call("/slow")
            sys.exit("not interrupted")
        except KeyboardInterrupt:
            pass
        expect("afterwards", client.call("/echo", b"a").body, b"a")


async def with_asyncio():
    async with sluice.AsyncClient(endpoint, **options) as client:
        await client.wait_connected(float(os.environ.get("WAIT_S", 60)))
        replies = await asyncio.gather(*[client.call("/echo", b"%d" % i) for i in range(200)])
        expect("gather", [r.body for r in replies], [b"%d" % i for i in range(200)])
        expect("batch", [r.body for r in await client.call_batch("/echo", [b"a", b"b"])], [b"a", b"b"])
        rows = np.ones((4, 2), "<f4")
        expect("rows", (await client.call_rows("/double", rows, "<f4")).tolist(), (rows * 2).tolist())
        task = asyncio.create_task(client.call("/slow"))
        await asyncio.sleep(0.05)
        task.cancel()
        try:
            sys.exit(await task)
        except asyncio.CancelledError:
            pass
        while client.stats()["open_calls"]:
            await asyncio.sleep(0.01)
        async with client.stream("/chat") as chat:
            await chat.send(b"one")
            expect("message", await anext(chat), b"ONE")

            async def write():
                for _ in range(20):
                    await chat.send(b"y" * 50000)
                await chat.end()

            writer = asyncio.create_task(write())
            got = [m async for m in chat]
            await writer
            expect("stream", (sum(map(len, got)), chat.reply.status), (20 * 50000 + 3, 200))
        waiting = asyncio.create_task(client.call("/slow"))
        await asyncio.sleep(0)
        client.close()
        try:
            sys.exit(await waiting)
        except sluice.CallError as error:
            expect("closed", error.errno, errno.ECANCELED)


def asyncio_():
    asyncio.run(with_asyncio())


def absent():
    """Without a server: one line that says why."""
    client = sluice.Client("shm:///nonexistent/x.sock", connect_timeout=0.1)
    try:
        client.wait_connected(0.2)
    except sluice.CallError as error:
        expect("reason", "/nonexistent/x.sock" in str(error), True)
    expect("call", raised(errno.EHOSTUNREACH, lambda: client.call("/")), True)
    client.close()
    for wrong in ("http://x", "shm:///a,shm:///a"):
        try:
            sys.exit(sluice.Client(wrong))
        except OSError:
            pass


globals()[sys.argv[1]]()
