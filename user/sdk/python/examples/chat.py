#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Replies to each message with its words, one by one: in HTTP as events, in gRPC as messages.

    chat.py shm:///run/chat.sock
"""
import asyncio
import sys

import sluice


async def chat(stream):
    is_grpc = not stream.request.method
    async for part in stream:
        for word in part.split():
            await stream.reply(
                word if is_grpc else b"data: %s\n\n" % word,
                content_type=None if is_grpc else "text/event-stream",
                more=True,
            )
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    sluice.Backend(sys.argv[1], stream=chat).run()
