# SPDX-License-Identifier: Apache-2.0
"""The same model as an ASGI application, a request at a time: uvicorn http_model:app"""
import mlp
import numpy as np


async def app(scope, receive, send):
    assert scope["type"] == "http"
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part.get("body", b""), part.get("more_body", False)
    reply = mlp.infer(np.frombuffer(body, mlp.DTYPE).reshape(1, mlp.INPUTS)).tobytes()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(reply))]})
    await send({"type": "http.response.body", "body": reply})
