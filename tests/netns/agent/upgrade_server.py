# SPDX-License-Identifier: Apache-2.0
"""Servers of WebSocket for the agent's tests: upgrade_server.py ADDRESS PORT-OF-STOCK PORT-BY-HAND

Stock: the package websockets, which echoes each message. The other one, by path:

  /eager  goes on at once, in the segment of its 101, and says again what it gets until that ends
  /bye    goes on, says so, and closes
  /wrong  a Sec-WebSocket-Accept of another key
  /other  another protocol than was asked for
  /no     403
  /events an event each 50 ms, in an ordinary reply, until the other side closes
  /seen   how many connections /eager has, in an ordinary reply
"""
import asyncio
import base64
import hashlib
import re
import sys

import websockets

eager = 0


async def say_again(ws, path=None):
    async for message in ws:
        await ws.send(message)


def accept_of(head):
    key = re.search(rb"(?i)\r\nsec-websocket-key: *([^\r\n]*)", head)
    return base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()) if key else b""


async def by_hand(reader, writer):
    global eager
    head = await reader.readuntil(b"\r\n\r\n")
    path = head.split(b" ")[1].decode()
    assert re.search(rb"(?i)\r\nconnection: upgrade\r\n", head) or path in ("/seen", "/events"), head

    def go_on(accept=None, protocol=b"websocket", behind=b""):
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n"
                     b"Sec-WebSocket-Accept: %s\r\n\r\n%s" % (protocol, accept or accept_of(head), behind))

    if path == "/eager":
        eager += 1
        try:
            go_on(behind=b"first")
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        finally:
            eager -= 1
    elif path == "/bye":
        go_on(behind=b"bye")
    elif path == "/wrong":
        go_on(b"AAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    elif path == "/other":
        go_on(protocol=b"other")
    elif path == "/events":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not reader.at_eof() and not writer.is_closing():
            writer.write(b"9\r\ndata: 1\n\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)
    elif path == "/seen":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % eager)
    else:
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
    await writer.drain()
    writer.close()


async def main():
    await websockets.serve(say_again, sys.argv[1], int(sys.argv[2]), max_size=None, ping_interval=None)
    await asyncio.start_server(by_hand, sys.argv[1], int(sys.argv[3]))
    print("listening", flush=True)
    await asyncio.Future()


asyncio.run(main())
