# SPDX-License-Identifier: Apache-2.0
"""The backend of python.sh, served.py ENDPOINT run|async: what it does with a request is its path."""
import asyncio
import collections.abc
import sys
import threading
import time

import numpy as np
import sluice

kept = {}
turns = [0]


def count_turns():
    while True:
        turns[0] += 1
        time.sleep(0.01)


def say(request, *words, sep=" "):
    request.reply(sep.join(map(str, words)).encode(), content_type="text/plain")


def attempt(fn):
    try:
        return fn()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def about(request):
    words = (request.method, request.path, request.query, request.header("x-one"), request.header("x-none", "-"),
             dict(request.headers).get("x-one"), request.body.readonly)
    request.reply(" ".join(map(str, words)).encode(), status=201, headers={"X-Two": "2", "x-three": b"3"})


def echo_array(request):
    """Any buffer: here an array over the request itself."""
    request.reply(np.frombuffer(request.body, "u1"))


def keep(request):
    """A view and the request, for /use."""
    kept["request"], kept["view"] = request, request.body
    say(request, bytes(request.body).decode())


def use(request):
    say(request, attempt(lambda: kept["view"][0]), "|", attempt(lambda: kept["request"].body), "|",
        attempt(lambda: memoryview(kept["request"])), "|", attempt(lambda: kept["request"].reply(b"again")))


def hold(request):
    """An array, for /drop."""
    kept["array"] = np.frombuffer(request.body, "u1")
    say(request, "held")


def drop(request):
    say(request, bytes(kept.pop("array")).decode())


def hint(request):
    request.reply_interim(headers=[("link", "</a.css>; rel=preload"), ("link", "</b.js>; rel=preload")])
    say(request, "hinted")
    kept["late"] = attempt(request.reply_interim)


def late(request):
    say(request, kept["late"])


def wrong(request):
    request.reply(b"", status=99)


def fail(request):
    raise KeyError("no such thing\nat all")


def nothing(request):
    pass


def idle(request):
    say(request, turns[0])


def slow(request):
    time.sleep(0.5)
    say(request, "slow")


def last(request):
    """Is answered although the backend has been told to end meanwhile: the log says when."""
    print("last", flush=True)
    time.sleep(2)
    say(request, "last")


def echo(request):
    request.reply(request.body, content_type=request.content_type or None)


class Replying(collections.abc.Mapping):
    """Headers that reply to their own request when they are read."""

    def __init__(self, request):
        self.request = request

    def __len__(self):
        return 1

    def __iter__(self):
        self.request.reply(b"first")
        return iter(["x-a"])

    def __getitem__(self, name):
        return "b"


def mapping(request):
    kept["second"] = attempt(lambda: request.reply(b"second", headers=Replying(request)))


def second(request):
    say(request, kept["second"])


def odd_headers(request):
    say(request, *(attempt(lambda: request.reply(b"", headers=headers)) for headers in (
        {"a\0b": "c"}, {"a": "b\r\nc: d"}, {"a": b"b\n"}, {"a b": "c"}, {"": "c"}, [["x"]])), sep="|")


ways = {"about": about, "array": echo_array, "keep": keep, "use": use, "hold": hold, "drop": drop, "wrong": wrong,
        "fail": fail, "nothing": nothing, "idle": idle, "hint": hint,
        "late": late, "mapping": mapping, "second": second, "odd-headers": odd_headers, "slow": slow, "last": last, "echo": echo}


def name(request):
    return request.path.rsplit("/", 1)[-1]


def handle(batch):
    if all(name(request) == "rows" for request in batch):
        x = np.stack([np.frombuffer(request.body, "<u4") for request in batch])
        return np.concatenate([x + 1, np.full((len(batch), 1), len(batch), "<u4")], axis=1)
    if all(name(request) == "stack" for request in batch):
        x = batch.stack("<u4", (3,))
        return np.concatenate([x + 1, np.full((len(batch), 1), len(batch), "<u4")], axis=1)
    if all(name(request) == "list" for request in batch):
        return [bytes(request.body).upper() for request in batch]
    if all(name(request) == "same" for request in batch):
        return b"same"
    if all(name(request) == "guilty" for request in batch):
        if any(request.body == b"guilty" for request in batch):
            raise ValueError("guilty")
        return [b"%d" % len(batch) for _ in batch]
    if all(name(request) == "short" for request in batch):
        return np.zeros((len(batch) + 1, 2))
    for request in batch:
        if name(request) in ("rows", "stack", "list", "same", "guilty"):
            request.reply(b"", status=503)
        else:
            ways[name(request)](request)


async def reply_later(request):
    if name(request) == "last":
        print("last", flush=True)
    await asyncio.sleep(2 if name(request) == "last" else 0.01)
    if name(request) == "last":
        say(request, "last")
    elif name(request) == "hint":
        hint(request)
    else:
        echo(request)


def start(batch, tasks):
    for request in batch:
        if name(request) != "nothing":
            task = asyncio.create_task(reply_later(request))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


async def serve(backend):
    tasks = set()
    async for batch in backend:
        start(batch, tasks)
        del batch  # requests without a reference are answered before the next batch comes


if __name__ == "__main__":
    if sys.argv[2] == "async":
        asyncio.run(serve(sluice.Backend(sys.argv[1], max_batch=64)))
    else:
        threading.Thread(target=count_turns, daemon=True).start()
        sluice.Backend(sys.argv[1], handle, max_batch=64).run()
    print("served", flush=True)
