# SPDX-License-Identifier: Apache-2.0
"""members.py ADDRESS FIRST-PORT MEMBER...: HTTP servers of bench-traffic, one port each, in one process.

A member is MS (replies 200 after so many ms), `fail` (replies 500 at once), or `cache:N:HIT:MISS`: it keeps N prompts,
the first 4 KiB of bodies, as LRU; a reply takes HIT ms and says "hit", or takes MISS ms and says "miss".
"""
import asyncio
import collections
import sys

PROMPT = 4096
HEAD_END = b"\r\n\r\n"


class Member:
    def __init__(self, kind):
        self.status, self.kept = "200 OK", None
        if kind == "fail":
            self.status, self.hit = "500 Internal Server Error", 0.0
        elif kind.startswith("cache:"):
            places, hit, miss = kind.split(":")[1:]
            self.places, self.hit, self.miss = int(places), float(hit) / 1e3, float(miss) / 1e3
            self.kept = collections.OrderedDict()
        else:
            self.hit = float(kind) / 1e3

    def answer(self, body):
        """Returns the reply's text, and when it is due."""
        if self.kept is None:
            return "ok", self.hit
        prompt = body[:PROMPT]
        known = prompt in self.kept
        self.kept[prompt] = True
        self.kept.move_to_end(prompt)
        if len(self.kept) > self.places:
            self.kept.popitem(last=False)
        return ("hit", self.hit) if known else ("miss", self.miss)


class Connection(asyncio.Protocol):
    """One request at a time, as proxies send them."""

    def __init__(self, member):
        self.member, self.got, self.need, self.body_at = member, bytearray(), 0, 0

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.got += data
        if not self.need:
            end = self.got.find(HEAD_END)
            if end < 0:
                return
            length = [line for line in bytes(self.got[:end]).lower().split(b"\r\n") if
                      line.startswith(b"content-length:")]
            self.body_at = end + len(HEAD_END)
            self.need = self.body_at + (int(length[0].partition(b":")[2]) if length else 0)
        if len(self.got) < self.need:
            return
        text, wait = self.member.answer(bytes(self.got[self.body_at:self.need]))
        del self.got[:self.need]
        self.need = 0
        if wait:
            asyncio.get_running_loop().call_later(wait, self.reply, text)
        else:
            self.reply(text)

    def reply(self, text):
        if not self.transport.is_closing():
            self.transport.write(f"HTTP/1.1 {self.member.status}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())


async def main(address, first, *kinds):
    loop = asyncio.get_running_loop()
    for i, kind in enumerate(kinds):
        member = Member(kind)
        await loop.create_server(lambda member=member: Connection(member), address, int(first) + i, backlog=1024)
    print("serves", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
