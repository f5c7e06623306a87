#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Requests that are passed on as they come, and replies that come meanwhile: HTTP/1.1, HTTP/2, gRPC.
. "$(dirname "$0")/../lib.sh"
export SL_VERBOSE=1 # gRPC's interoperability cases are shown by name

arena
curl_never_blocks
backend echo echo
backend chat chat
backend flood chat --repeat 100000000
backend slow chat --interval-us 100000 --repeat 1000000
backend interop interop
backend refusing echo --fail 403
gateway <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool echo { backend a { endpoint = "shm://$D/echo.sock" } }
pool chat { backend a { endpoint = "shm://$D/chat.sock" } }
pool flood { backend a { endpoint = "shm://$D/flood.sock" } }
pool slow { backend a { endpoint = "shm://$D/slow.sock" } }
pool refusing { backend a { endpoint = "shm://$D/refusing.sock" } }
pool interop { backend a { endpoint = "shm://$D/interop.sock" } }
route "/echo" { pool = echo stream = yes }
route "/kept" { pool = echo }
route "/asked" { pool = echo stream = yes continue = backend }
route "/refused" { pool = refusing stream = yes continue = backend }
route "/short" { pool = echo stream = yes max_body = 1000 }
route "/rate" { pool = echo stream = yes max_rate = 200k }
route "/chat" { pool = chat stream = yes }
route "/flood" { pool = flood stream = yes }
route "/slow" { pool = slow stream = yes }
route "/sluice.demo.Echo/" { pool = echo stream = yes }
route "/sluice.demo.Chat/" { pool = chat stream = yes }
route "/sluice.demo.Flood/" { pool = flood stream = yes }
route "/sluice.demo.Slow/" { pool = slow stream = yes }
route "/grpc.testing.TestService/" { pool = interop stream = yes }
memory { frames = 256m }
admin { address = "127.0.0.1" port = 9900 }
CONFIG

url=http://$V4:8080
words() { [ "$(cl curl -sN --max-time 20 "$@" | grep -c '^data: ')" = 5 ]; }
check "words come as events" words -d "one two three four five" "$url/chat"
check "words come as events over HTTP/2" words --http2-prior-knowledge -d "one two three four five" "$url/chat"

head -c 3000000 /dev/urandom >"$D/body"
same() { cl curl -sN --max-time 60 "$@" -o "$D/back" && cmp "$D/body" "$D/back"; }
check "an upload with a length comes back" same --data-binary "@$D/body" "$url/echo"
check "a chunked upload comes back" same -H 'Transfer-Encoding: chunked' --data-binary "@$D/body" "$url/echo"
check "an upload over HTTP/2 comes back" same --http2-prior-knowledge --data-binary "@$D/body" "$url/echo"
check "100 (Continue) is said" same -H 'Expect: 100-continue' --data-binary "@$D/body" "$url/echo"
# Before its first byte of body curl waits for 100, or, here, for longer than it may take.
asked() { same --expect100-timeout 50 -H 'Expect: 100-continue' --data-binary "@$D/body" -v "$@" "$url/asked" && grep -q '^< HTTP/[12.]* 100' "$D/out"; }
check "a backend says 100 (Continue)" asked
check "a backend says 100 (Continue) over HTTP/2" asked --http2-prior-knowledge
unasked() {
	[ "$(cl curl -s --max-time 40 --expect100-timeout 50 -H 'Expect: 100-continue' --data-binary "@$D/body" -o /dev/null -w '%{http_code} %{size_upload}' "$@" "$url/refused")" = "403 0" ]
}
check "a backend answers without, and nothing of the body is sent" unasked
check "over HTTP/2 too" unasked --http2-prior-knowledge
status_is() { local want=$1; shift; [ "$(cl curl -s --max-time 20 -o /dev/null -w '%{http_code}' "$@")" = "$want" ]; }
check "max_body of a route bounds its streams" status_is 413 -H 'Transfer-Encoding: chunked' --data-binary "@$D/body" "$url/short"
# max_body of the limits, 16 MiB, is for what is kept.
head -c 20000000 /dev/zero >"$D/large"
large() { cl curl -sN --max-time 120 "$@" --data-binary "@$D/large" -o "$D/back" && cmp "$D/large" "$D/back"; }
check "a length beyond max_body of the limits is a stream's all the same" large "$url/echo"
check "over HTTP/2 too" large --http2-prior-knowledge "$url/echo"
check "max_body of the limits bounds what is no stream" status_is 413 --data-binary "@$D/large" "$url/kept"
check "a request without a body is a stream too" status_is 200 "$url/echo"

# 600 kB at 200 KiB/s; how much longer it takes is the host's.
head -c 600000 "$D/body" >"$D/some"
held() {
	cl curl -sN --max-time 60 -w '%{time_total}\n' --data-binary "@$D/some" -o "$D/back" "$@" "$url/rate" >"$D/took" && cmp "$D/some" "$D/back" &&
		awk '{ exit !($1 > 2.5) }' "$D/took" && [ "$(stat_sum core.stream_waits)" -gt 5 ]
}
check "a stream keeps to max_rate" held
check "a stream keeps to max_rate over HTTP/2" held --http2-prior-knowledge

check_py "parts go both ways while the request is open" "$V4" <<'EOF'
import socket, sys
s = socket.create_connection((sys.argv[1], 8080), timeout=20)
s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
got = b""
for i in range(20):
    word = b"part%d" % i
    s.sendall(b"%x\r\n%s\r\n" % (len(word), word))
    while not got.endswith(b"%x\r\n%s\r\n" % (len(word), word)):
        more = s.recv(4096)
        assert more, got
        got += more
s.sendall(b"0\r\n\r\n")
while not got.endswith(b"0\r\n\r\n"):
    more = s.recv(4096)
    assert more, got
    got += more
assert b"chunked" in got.lower()
EOF

# The distribution's Python is the one that has grpcio.
for name in $(/usr/bin/python3 "$here/grpc/streams.py" --list); do
	check "grpcio: $name" cl timeout 200 /usr/bin/python3 "$here/grpc/streams.py" "$V4:8080" "$name"
done

# A backend gets what has come of a message at once; `chat` says its words when all of it has.
check_py "a gRPC message that comes in two pieces is answered with its word" "$V4" <<'EOF'
import socket, sys, time
def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags, 0, 0, 0, stream]) + body
DATA, HEADERS, SETTINGS = 0, 1, 4
head = b"\x83\x86\x04\x15/sluice.demo.Slow/Say\x41\x01x\x5f\x10application/grpc\x40\x02te\x08trailers"
s = socket.create_connection((sys.argv[1], 8080), timeout=20)
s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + frame(HEADERS, 4, 1, head)
          + frame(DATA, 0, 1, b"\0\0\0\0\x04wo"))
time.sleep(0.5)
s.sendall(frame(DATA, 0, 1, b"rd"))
got = b""
while b"word" not in got:
    more = s.recv(4096)
    assert more, got
    got += more
assert got.count(b"\0\0\0\0\x02") == 0, got
EOF

# Clients that leave: their backend hears of it, and says none of their words while it says ten of another's.
late() { metric sluice_backend_late_replies_total; }
before=$(late)
check_py "a hundred clients leave in the midst of their streams" "$V4" <<'EOF'
import socket, sys
def stream():
    s = socket.create_connection((sys.argv[1], 8080), timeout=60)
    s.sendall(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nword ")
    return s
def words(s, n):
    got = b""
    while got.count(b"data: word") < n:
        more = s.recv(4096)
        assert more, got
        got += more
leave = [stream() for i in range(100)]
stay = stream()
for s in leave:
    words(s, 1)
for s in leave:
    s.close()
words(stay, 10)
EOF
check "less than two parts of each come after that" eval '[ $(($(late) - before)) -lt 200 ]'

finish
