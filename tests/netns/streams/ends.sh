#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Open streams while the gateway changes: a reload leaves them alone; a drain lets them finish until its deadline.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
backend slow chat --interval-us 50000 --repeat 1000000
backend short chat --interval-us 50000
gateway_config <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool echo { backend a { endpoint = "shm://$D/echo.sock" } }
pool slow { backend a { endpoint = "shm://$D/slow.sock" } }
pool short { backend a { endpoint = "shm://$D/short.sock" } }
route "/echo" { pool = echo stream = yes }
route "/slow" { pool = slow stream = yes }
route "/short" { pool = short stream = yes }
route "/sluice.demo.Slow/" { pool = slow stream = yes }
limits { drain_timeout = 10s }
admin { address = "127.0.0.1" port = 9900 }
CONFIG
gateway_start
cp "$D/gw.conf" "$D/with.conf"
# Without the route and the pool of what is being streamed.
grep -vE 'slow|echo' "$D/gw.conf" >"$D/without.conf"

cat >"$D/streams.py" <<'EOF'
import os, shutil, signal, socket, sys, time
V4, PID, D = sys.argv[1], int(sys.argv[2]), sys.argv[3]
LAST = b"\r\n0\r\n\r\n"
class Stream:
    """Of HTTP/1.1: what has come of its reply."""
    def __init__(self, path, body, more=False):
        self.s, self.got = socket.create_connection((V4, 8080), timeout=60), b""
        self.s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % path)
        self.say(body)
        if not more:
            self.end()
    def say(self, body):
        self.s.sendall(b"%x\r\n%s\r\n" % (len(body), body))
    def end(self):
        self.s.sendall(b"0\r\n\r\n")
    def until(self, what, n=1):
        while self.got.count(what) < n:
            more = self.s.recv(65536)
            assert more, (what, n, self.got[-200:])
            self.got += more
    def rest(self):
        try:
            while more := self.s.recv(65536):
                self.got += more
        except ConnectionResetError:
            pass
        return self.got
EOF
streams() { local text=$1; shift; { cat "$D/streams.py"; cat; } >"$D/all.py"; check "$text" cl timeout 200 /usr/bin/python3 "$D/all.py" "$V4" "$@"; }

streams "a reload without their route and pool leaves them alone" "$gateway_pid" "$D" <<'EOF'
slow, echo = Stream(b"/slow", b"word"), Stream(b"/echo", b"one", more=True)
slow.until(b"data: word")
echo.until(b"one")
shutil.copyfile(D + "/without.conf", D + "/gw.conf")
os.kill(PID, signal.SIGHUP)
while "reload: in force: " not in open(D + "/gw.log").read():
    time.sleep(0.05)
gone = Stream(b"/slow", b"word")
gone.until(b"\r\n")
assert gone.got.startswith(b"HTTP/1.1 404 "), gone.got
n = slow.got.count(b"data: word")
slow.until(b"data: word", n + 20)
echo.say(b"two")
echo.until(b"two")
echo.end()
echo.until(LAST)
slow.s.close()
EOF

gateway_stop
cp "$D/with.conf" "$D/gw.conf"
gateway_start

streams "a drain lets them finish, and at its deadline ends those that have not, so that it is seen" "$(gateway_child)" "$D" <<'EOF'
import grpc
def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body
DATA, HEADERS, RST, SETTINGS, GOAWAY, END = 0, 1, 3, 4, 7, 1
def frames(data):
    while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
        n = int.from_bytes(data[:3], "big")
        yield data[3], data[4], data[9:9 + n]
        data = data[9 + n:]
endless = [Stream(b"/slow", b"word") for i in range(5)]
upload = Stream(b"/echo", b"one", more=True)
finish = [Stream(b"/short", b"word " * 20) for i in range(5)]
h2 = Stream.__new__(Stream)
h2.s, h2.got = socket.create_connection((V4, 8080), timeout=60), b""
h2.s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)
             + frame(HEADERS, 4, 1, b"\x83\x86\x04\x05/slow\x41\x01x") + frame(DATA, END, 1, b"word"))
call = grpc.insecure_channel(V4 + ":8080").unary_stream("/sluice.demo.Slow/Say")(b"word", timeout=60)
for s in endless + finish + [h2]:
    s.until(b"data: word")
upload.until(b"one")
assert next(call) == b"word"
os.kill(PID, signal.SIGTERM)
at = time.monotonic()
upload.say(b"two")  # it is open, and goes on
upload.until(b"two")
upload.end()
upload.until(LAST)
for s in finish:
    assert s.rest().endswith(LAST), s.got[-100:]
    assert s.got.count(b"data: word") == 20
for s in endless:
    n = s.got.count(b"data: word")
    assert not s.rest().endswith(LAST), s.got[-100:]
    assert s.got.count(b"data: word") > n, "it was not let go on"
h2.rest()
seen = list(frames(h2.got))
assert not any(kind in (DATA, HEADERS) and flags & END for kind, flags, body in seen), seen[-5:]
assert any(kind == GOAWAY for kind, flags, body in seen), seen[-5:]
try:
    for word in call:
        pass
    raise AssertionError("a clean end")
except grpc.RpcError as e:
    assert e.code() == grpc.StatusCode.UNAVAILABLE, e
print("%.1f s" % (time.monotonic() - at))
EOF
check "and the gateway ends" within 30 eval '! alive "$gateway_pid"'
wait "$gateway_pid"
gateway_pid=''
finish
