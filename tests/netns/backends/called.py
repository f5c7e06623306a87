# SPDX-License-Identifier: Apache-2.0
"""A backend of python-client.sh, called.py ENDPOINT [KEY_FILE]: answers what direct clients ask for, by path."""
import sys
import time

import numpy as np
import sluice


def answer(request):
    body = bytes(request.body)
    if request.path == "/about":
        request.reply(f"{request.method} {request.query} {request.header('x-one')} {request.content_type}".encode(), status=404,
                      headers={"x-two": "2"}, content_type="text/plain")
    elif request.path == "/priority":
        request.reply(str(request.priority).encode())
    elif request.path == "/double":
        request.reply((np.frombuffer(body, "<f4") * 2).tobytes())
    elif request.path == "/size":
        request.reply(str(len(batch_now[0])).encode())
    elif request.path == "/slow":
        time.sleep(0.5)
        request.reply(b"slow")
    else:
        request.reply(body)


batch_now = [()]


def handle(batch):
    batch_now[0] = batch
    for request in batch:
        answer(request)


async def stream(call):
    async for part in call:
        await call.reply(part.upper(), more=True)
    await call.reply(b"end", headers=None)


sluice.Backend(sys.argv[1], handle, stream=stream, max_batch=1024, **({"key_file": sys.argv[2]} if sys.argv[2:] else {})).run()
