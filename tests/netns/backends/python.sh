#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Backends in Python: bytes, batches, exceptions, what outlives a reply, both forms, SIGTERM; and the two examples.
. "$(dirname "$0")/../lib.sh"

arena
python_backend run backends/served.py run
python_backend async backends/served.py async
python_backend stress backends/stressed.py
python_backend numpy ../../user/sdk/python/examples/numpy_model.py
python_backend sklearn ../../user/sdk/python/examples/sklearn_model.py
pool() { echo "pool $1 { batch { max_latency = 10s } backend a { endpoint = \"shm://$D/$1.sock\" } } route \"/$1\" { pool = $1 deadline = 60s ${2:-} }"; }
gateway <<CONF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
$(pool run 'strip_prefix = yes forward_headers = {"x-one"}')
$(pool async)
$(pool stress)
$(pool numpy)
$(pool sklearn)
CONF

for form in run async; do
	check_py "$form: 0 to 1 MiB come back as they were" $form <<'PY'
from raw import *
import os
for n in (0, 1, 15, 4096, 65537, 1 << 20):
    body = os.urandom(n)
    r = post(f"/{sys.argv[1]}/echo", body, headers="Content-Type: x/y\r\n")
    expect(f"{n} bytes", (r.status, r.headers.get("content-type"), r.body == body), (200, "x/y", True))
    if sys.argv[1] == "run" and n:
        expect(f"{n} bytes as an array", post("/run/array", body).body == body, True)
PY
done
check_py "accessors, status and headers" <<'PY'
from raw import *
r = post("/run/about?a=b", b"x", headers="X-One: uno\r\n")
expect("reply", (r.status, r.body, r.headers.get("x-two"), r.headers.get("x-three")),
       (201, b"POST /about a=b uno - uno True", "2", "3"))
PY
check_py "batches, and one array for each" <<'PY'
from raw import *
import struct, threading
def ask_rows(i, seen):
    r = post("/run/rows", struct.pack("<3I", i, i + 1, i + 2))
    seen.append((r.status, i, struct.unpack("<4I", r.body) if r.status == 200 else None))
largest = 0
for _ in range(20):
    seen, first = [], threading.Thread(target=post, args=("/run/slow", b""))
    first.start()
    time.sleep(0.1)
    threads = [threading.Thread(target=ask_rows, args=(i * 10, seen)) for i in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads + [first]]
    expect("replies", len(seen), 16)
    for status, i, row in seen:
        if status != 503:
            expect("own row", (status, row[:3]), (200, (i + 1, i + 2, i + 3)))
            largest = max(largest, row[3])
    if largest > 1:
        break
expect("more than one at once", largest > 1, True)
expect("an array that does not fit", post("/run/short", b"").status, 500)
PY
check "the log says why an array does not fit" grep -q 'ValueError: a reply to a batch: expected an array of 1 rows, found 2 dimensions and 2 rows' "$D/run.log"
# Sixteen requests at a time, sent while the handler is busy, so that they come as one batch.
cat >"$D/together.py" <<'PY'
from raw import *
import threading
def together(path, bodies):
    seen, slow = {}, threading.Thread(target=post, args=("/run/slow", b""))
    def ask(i, body):
        r = post(path, body)
        seen[i] = (r.status, r.body)
    slow.start()
    time.sleep(0.1)
    threads = [threading.Thread(target=ask, args=a) for a in enumerate(bodies)]
    [t.start() for t in threads]
    [t.join() for t in threads + [slow]]
    return [seen[i] for i in range(len(bodies))]
def until(fn):
    """A request can come to the batch of the slow one, and gets 503 then."""
    for _ in range(20):
        seen = fn()
        if seen:
            return
    expect("one batch in 20 rounds", None, "a batch of several requests")
PY
check_py "stack(): a body that does not fit is a 400, the others of its batch are served" <<'PY'
from together import *
import struct
def round():
    good = [struct.pack("<3I", i, i + 1, i + 2) for i in range(15)]
    seen = together("/run/stack", good + [b"odd"])
    if any(status == 503 for status, _ in seen):
        return False
    expect("odd", seen[15], (400, b"body: expected 12 bytes (uint32 of shape (3,)), found 3\n"))
    largest = 0
    for i, (status, body) in enumerate(seen[:15]):
        row = struct.unpack("<4I", body)
        expect("row", (status, row[:3]), (200, (i + 1, i + 2, i + 3)))
        largest = max(largest, row[3])
    return largest > 1
until(round)
PY
check_py "a batch whose handler raises: only the request that makes it raise is a 500" <<'PY'
from together import *
def round():
    seen = together("/run/guilty", [b"good"] * 7 + [b"guilty"] + [b"good"] * 8)
    if any(status == 503 for status, _ in seen):
        return False
    expect("statuses", [status for status, _ in seen], [200] * 7 + [500] + [200] * 8)
    return any(int(body) > 1 for status, body in seen if status == 200)
until(round)
PY
check_py "a handler returns a list of bytes, or bytes for all" <<'PY'
from raw import *
expect("list", post("/run/list", b"abc").body, b"ABC")
expect("bytes", post("/run/same", b"abc").body, b"same")
PY
check_py "headers that reply to their request end neither it nor the process" <<'PY'
from raw import *
expect("reply", post("/run/mapping", b"x").body, b"first")
expect("second", post("/run/second", b"").body.startswith(b"ValueError: the request has been replied to"), True)
PY
check_py "names and values that are no header are refused" <<'PY'
from raw import *
said = post("/run/odd-headers", b"").body.decode().split("|")
expect("NUL in a name", said[0].startswith("ValueError: header name 'a\\x00b'"), True)
expect("line end in a value", said[1].startswith("ValueError: header a: found NUL or a line end"), True)
expect("line end in bytes", said[2].startswith("ValueError: header a: found NUL or a line end"), True)
expect("blank in a name", said[3].startswith("ValueError: header name 'a b'"), True)
expect("empty name", said[4].startswith("ValueError: header name ''"), True)
expect("no pair", said[5].startswith("TypeError: expected pairs"), True)
PY
check_py "an exception is a 500" <<'PY'
from raw import *
for path in ("fail", "wrong", "nothing"):
    expect(path, post("/run/" + path, b"x").status, 500)
expect("then as before", post("/run/echo", b"x").body, b"x")
PY
check "with one line in the log" test "$(grep -c "KeyError: 'no such thing.*served.py:[0-9]*): 1 of 1 requests are answered 500" "$D/run.log")" -eq 1
check "and of a wrong status" grep -q "ValueError: status 99, .*expected 200 to 599.*: 1 of 1 requests" "$D/run.log"
check "and of no reply" grep -q "the handler did not reply: 1 of 1 requests are answered 500" "$D/run.log"
check_py "what is used behind a reply raises" <<'PY'
from raw import *
expect("kept", post("/run/keep", b"kept").body, b"kept")
view, body, buffer, again = post("/run/use", b"x").body.decode().split(" | ")
expect("view", view, "ValueError: operation forbidden on released memoryview object")
expect("body", body.startswith("ValueError: the request has been replied to"), True)
expect("buffer", buffer.startswith("BufferError: the request has been replied to"), True)
expect("reply", again.startswith("ValueError: the request has been replied to"), True)
PY
for form in run async; do
	check_py "$form: an interim reply comes before the reply" $form <<'PY'
from raw import *
c = Client()
c.send(b"POST /%s/hint HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" % sys.argv[1].encode())
expect("status", c._line(), b"HTTP/1.1 103 Early Hints")
links = [c._line(), c._line()]
expect("links", [l.lower() for l in links], [b"link: </a.css>; rel=preload", b"link: </b.js>; rel=preload"])
expect("end", c._line(), b"")
r = c.reply()
expect("reply", (r.status, r.body), (200, b"hinted"))
if sys.argv[1] == "run":
    expect("late", post("/run/late", b"").body.startswith(b"ValueError: the request has been replied to"), True)
PY
done
check_py "an array that is kept stays whole, and its reply waits for it" <<'PY'
from raw import *
c = Client()
c.send(b"POST /run/hold HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nwhole")
c.s.settimeout(0.5)
try:
    expect("no reply yet", c.s.recv(1), None)
except TimeoutError:
    c.s.settimeout(15)
expect("others are served", [post("/run/echo", b"y" * 5).body for _ in range(20)], [b"yyyyy"] * 20)
expect("array", post("/run/drop", b"").body, b"whole")
expect("its reply", c.reply().body, b"held")
PY
check "the log names it" grep -q "1 replies wait: the handler has kept arrays" "$D/run.log"
check_py "other threads of it run while it waits" <<'PY'
from raw import *
before = int(post("/run/idle", b"").body)
expect("turns", eventually(10, lambda: int(post("/run/idle", b"").body) > before + 5), True)
PY
check_py "async: a request that is dropped is a 500" <<'PY'
from raw import *
expect("status", post("/async/nothing", b"x").status, 500)
PY
# The Python that has the packages, whatever `python3` is.
cat >"$D/examples.py" <<'PY'
from raw import *
import json
import numpy as np
w = np.random.default_rng(1).standard_normal((16, 4)).astype("<f4")
x = np.arange(16, dtype="<f4")
y = np.frombuffer(post("/numpy/", x.tobytes()).body, "<f4")
expect("numpy", np.allclose(y, np.maximum(x @ w, 0), rtol=1e-4), True)
expect("numpy, too short", post("/numpy/", b"x").status, 400)
from sklearn.datasets import load_digits
images, digits = load_digits(return_X_y=True)
found = [json.loads(post("/sklearn/", images[i].astype("u1").tobytes()).body)["digit"] for i in range(20)]
expect("sklearn: digits of 20", sum(a == b for a, b in zip(found, digits)) >= 18, True)
expect("sklearn, too long", post("/sklearn/", b"x" * 65).status, 400)
PY
check "the examples" cl timeout 200 /usr/bin/python3 "$D/examples.py"

check_py "threads and collections in the middle of replies: every request ends" <<'PY'
from raw import *
import threading
counts, lock = {}, threading.Lock()
def ask():
    for i in range(40):
        c, body = Client(), b"y" * (i * 97 % 5000)
        c.send(b"POST /stress/%d HTTP/1.1\r\nHost: x\r\nX-One: \xff\r\nContent-Length: %d\r\n\r\n" % (i, len(body)) + body)
        r = c.reply()
        while r.status == 103:  # one of the racing threads sends it, if it comes before the reply
            r = c.reply()
        with lock:
            counts[r.status] = counts.get(r.status, 0) + 1
threads = [threading.Thread(target=ask) for _ in range(12)]
[t.start() for t in threads]
[t.join() for t in threads]
expect("statuses", {s: n for s, n in counts.items() if s not in (200, 500)}, {})
expect("replies", sum(counts.values()), 480)
PY
check "and the process lives" kill -0 "${pid_of[stress]}"
check "without a word of faulthandler" eval '! grep -E "Fatal Python error|Current thread" "$D/stress.log"'

# In-flight requests are answered behind SIGTERM, and the program ends by itself.
drains() {
	local form=$1 asked
	cl curl -sS --max-time 60 -d x "http://$V4:8080/$form/last" >"$D/last" 2>&1 &
	asked=$!
	within 30 grep -q '^last$' "$D/$form.log"
	end_process "${pid_of[$form]}" 20 && wait $asked && [ "$(cat "$D/last")$status" = last0 ] && grep -q '^served$' "$D/$form.log"
}
for form in run async; do
	check "$form: SIGTERM drains" drains $form
	unset "pid_of[$form]"
done
finish
