# SPDX-License-Identifier: Apache-2.0
"""Sends requests over a few connections until SIGTERM, and prints the results.

usage: ask.py HOST:PORT PATH LIMIT SEEN

Prints one line for each status, as in "200 17", sorted; the file SEEN has each as soon as it has come once. "hung": a
request without an answer for LIMIT seconds; "broken": its connection ended first; "wrong": another body than was sent.
"""
import collections
import http.client
import signal
import sys
import threading

CONNECTIONS = 4
PAUSE_S = 0.1  # between an answer and the next request: what asks without end leaves emulated CPUs nothing for the rest
found = collections.Counter()
lock = threading.Lock()
stop = threading.Event()


def ask(conn, path, body):
    try:
        conn.request("POST", path, body)
        reply = conn.getresponse()
        text = reply.read()
    except TimeoutError:
        conn.close()
        return "hung"
    except (OSError, http.client.HTTPException):
        conn.close()
        return "broken"
    return "wrong" if reply.status == 200 and text != body else str(reply.status)


def note(what, seen):
    with lock:
        found[what] += 1
        if found[what] == 1:
            print(what, file=seen, flush=True)


def run(number, address, path, limit, seen):
    conn = http.client.HTTPConnection(address, timeout=limit)
    count = 0
    while not stop.wait(PAUSE_S):
        count += 1
        note(ask(conn, path, b"%d of %d" % (count, number)), seen)


def main():
    address, path, limit, seen = sys.argv[1], sys.argv[2], float(sys.argv[3]), open(sys.argv[4], "w")
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threads = [threading.Thread(target=run, args=(n, address, path, limit, seen)) for n in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for what in sorted(found):
        print(what, found[what])


main()
