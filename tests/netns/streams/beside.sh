#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Parts of an urgent stream overtake what others upload to the same backend in the class `bulk`, through the whole gateway.
. "$(dirname "$0")/../lib.sh"

arena
backend classes tests/netns/hearer
backend same tests/netns/hearer
gateway <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool classes { backend a { endpoint = "shm://$D/classes.sock" } }
pool same { backend a { endpoint = "shm://$D/same.sock" } }
route "/classes/asked" { pool = classes stream = yes priority = latency }
route "/classes/upload" { pool = classes stream = yes priority = bulk }
route "/same/asked" { pool = same stream = yes priority = bulk }
route "/same/upload" { pool = same stream = yes priority = bulk }
admin { address = "127.0.0.1" port = 9900 }
CONFIG

# The backend is slow with uploads, so many bytes of them wait for it. Prints, for each question to it, how many upload
# bytes it heard before the answer. Without classes that is all that waited when the question came.
check_py "a question comes before what is uploaded" "$V4" <<'EOF'
import os, signal, socket, struct, sys
UPLOADS, ASKED = 64, 15
def begin(path):
    s = socket.create_connection((sys.argv[1], 8080), timeout=60)
    s.sendall(b"POST /%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % path)
    return s
def upload(path):
    s = begin(path)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    while True:
        s.sendall(b"10000\r\n%s\r\n" % bytes(0x10000))
def heard(s):
    s.sendall(b"3\r\nnow\r\n")
    text = b""
    while not text.endswith(b"\n\r\n"):
        more = s.recv(4096)
        assert more, text
        text += more
    return int(text.split(b"\r\n")[-2])
def between(name):
    """What was heard during each question and its answer, sorted."""
    children = []
    for n in range(UPLOADS):
        children.append(os.fork())
        if not children[-1]:
            upload(name + b"/upload")
    try:
        s = begin(name + b"/asked")
        while heard(s) < 1 << 20:
            pass
        at = [heard(s) for n in range(ASKED + 1)]
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    s.close()
    return sorted(b - a for a, b in zip(at, at[1:]))
# A gateway whose processor is taken away while it has a question says nothing of classes: not of the median.
classes, same = between(b"classes")[ASKED // 4], between(b"same")[ASKED // 2]
print("%d bytes, and without classes %d" % (classes, same))
assert 3 * classes < same, (classes, same)
EOF
[ -z "${SL_VERBOSE:-}" ] || cat "$D/out"

finish
