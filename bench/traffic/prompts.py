# SPDX-License-Identifier: Apache-2.0
"""prompts.py ADDRESS PORT COUNT CONNECTIONS PLACES SEED: conversations with shared system prompts, for affinity.

Each body is one of PROMPTS system prompts (8 KiB; popularity is Zipf's) and a text of its own (1 KiB). Prints the share
of replies that say "hit", and the share that an oracle reaches. It knows all popularities. It gives every prompt the
least loaded member that has one of its PLACES left. A prompt of more than 1.25 times a member's share gets several.
"""
import asyncio
import random
import sys

PROMPTS, MEMBERS, SKEW = 100, 8, 1.25


def draw(count, seed):
    """Returns the numbers of the prompts of all requests, and the popularities."""
    weights = [1 / (i + 1) for i in range(PROMPTS)]
    total = sum(weights)
    return random.Random(seed).choices(range(PROMPTS), weights, k=count), [w / total for w in weights]


def oracle(numbers, shares, places):
    """Returns the hits of a placement in which no member has more than SKEW times its share: one miss per home."""
    most, loads, kept, homes = SKEW / MEMBERS, [0.0] * MEMBERS, [0] * MEMBERS, [0] * PROMPTS
    for i, share in enumerate(shares):
        left = share
        while left > 1e-12:
            m = min((m for m in range(MEMBERS) if kept[m] < places), key=loads.__getitem__)
            kept[m] += 1
            part = min(left, most - loads[m])
            loads[m] += part
            left -= part
            homes[i] += 1
    seen = [numbers.count(i) for i in range(PROMPTS)]
    return sum(max(0, n - h) for n, h in zip(seen, homes, strict=True))


async def ask(address, port, bodies, replies):
    reader, writer = await asyncio.open_connection(address, port)
    for body in bodies:
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n")
                      if line.startswith(b"content-length:"))
        text = await reader.readexactly(length)
        replies[text if b" 200" in head[:16] else b"error"] = replies.get(text, 0) + 1
    writer.close()


async def main(address, port, count, connections, places, seed):
    count, connections = int(count), int(connections)
    numbers, shares = draw(count, seed)
    random_bytes = random.Random(seed + "text").randbytes
    systems = [random_bytes(4096).hex().encode() for _ in range(PROMPTS)]
    bodies = iter([systems[n] + random_bytes(512).hex().encode() for n in numbers])
    replies = {}
    await asyncio.gather(*(ask(address, int(port), bodies, replies) for _ in range(connections)))
    if sum(replies.values()) != count or set(replies) - {b"hit", b"miss"}:
        sys.exit(f"prompts: {replies}")
    print(replies.get(b"hit", 0) / count, oracle(numbers, shares, int(places)) / count)


asyncio.run(main(*sys.argv[1:]))
