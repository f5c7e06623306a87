# SPDX-License-Identifier: Apache-2.0
"""A backend of python.sh, stressed.py ENDPOINT: replies race with threads, finalizers and the collector."""
import collections.abc
import faulthandler
import gc
import sys
import threading

import numpy as np
import sluice

faulthandler.enable()
sys.setswitchinterval(1e-6)
gc.set_threshold(1)


class Headers(collections.abc.Mapping):
    """Lets other threads run, and replies by itself now and then, while it is read."""

    def __init__(self, request, count):
        self.request, self.count = request, count

    def __len__(self):
        return 1

    def __iter__(self):
        gc.collect(0)
        if self.count % 3 == 0:
            attempt(lambda: self.request.reply(b"from the mapping"))
        return iter(["x-a"])

    def __getitem__(self, name):
        return "b"


class Finalizer:
    """Garbage, in a cycle, that replies when it is collected."""

    def __init__(self, request):
        self.request, self.cycle = request, self

    def __del__(self):
        attempt(lambda: self.request.reply(b"from a finalizer"))


def attempt(fn):
    try:
        return fn()
    except (ValueError, BufferError, OSError, BlockingIOError):
        return None


def race(request, count):
    threads = [threading.Thread(target=attempt, args=(fn,)) for fn in (
        lambda: request.reply(b"one", headers=Headers(request, count)),
        lambda: request.reply(np.frombuffer(request.body, "u1"), headers=Headers(request, count + 1)),
        lambda: request.reply_interim(headers=Headers(request, count + 2)),
        lambda: (request.headers, request.header("x-one"), request.path, bytes(request.body)))]
    for thread in threads:
        thread.start()
    if count % 5 == 0:
        Finalizer(request)
    for thread in threads:
        thread.join()


def handle(batch):
    for count, request in enumerate(batch, start=len(gc.get_stats())):
        race(request, count)


sluice.Backend(sys.argv[1], handle, max_batch=8).run()
