#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# HTTP/2 with prior knowledge: curl, nghttp and h2load against the real gateway.
. "$(dirname "$0")/../lib.sh"

arena
curl_never_blocks
backend echo echo
backend part echo --streams 3
gateway <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool echo { backend a { endpoint = "shm://$D/echo.sock" } batch { max_latency = 5s } max_queue = 20000 }
pool part { backend a { endpoint = "shm://$D/part.sock" } }
route "/echo" { pool = echo }
route "/part" { pool = part }
route "/post" { pool = echo methods = {POST} }
route "/only" { pool = echo methods = {GET} }
route "/" { respond { status = 200 body = "hello\n" } }
limits { max_body = 64m }
memory { frames = 512m }
admin { address = "127.0.0.1" port = 9900 }
CONFIG
URL=http://$V4:8080

h2() { cl curl -sS --max-time 60 --http2-prior-knowledge "$@"; }
says() { local want=$1; shift; [ "$("$@")" = "$want" ]; }
upload() {
	head -c "$1" /dev/urandom >"$D/body"
	h2 --data-binary "@$D/body" -o "$D/back" "$URL/echo" && cmp "$D/body" "$D/back"
}

check "the protocol is HTTP/2" says 2 h2 -o /dev/null -w '%{http_version}' "$URL/"
check "a fixed reply" says hello h2 "$URL/"
check "GET reaches the backend" says "GET /x?y=1" h2 "$URL/echo/x?y=1"
check "HEAD has no body" says 0 h2 -I -o /dev/null -w '%{size_download}' "$URL/echo"
check "method that the route does not allow" says 405 h2 -o /dev/null -w '%{http_code}' "$URL/post"
check "a reply in parts" says xyzxyzxyz h2 -d xyz "$URL/part"
# A malformed request is answered before its stream is reset: RFC 9113 8.1.1.
refused() { local text=$1; shift; [ "$(h2 "$@" -w '%{http_code}' "$URL/echo")" = "400 Bad Request: $text
400" ]; }
check "a refused :authority is answered by 400 and why" refused "malformed :authority" -H 'Host: a b'
check "the same for an upload" refused "malformed :authority" -H 'Host: a b' --data-binary "@$BUILD/sluice"
check "a control byte in a value is answered by 400 and why" refused "malformed field value" -H $'X: a\x01b'
for n in 1 16384 65535 65536 1048577 33554432; do
	check "POST of $n bytes comes back" upload $n
done

# A reply that comes before the end of its request: the client is told that the rest is not needed when it has seen it.
# And one that is no error comes behind the request.
replies() { # STATUS PATH BYTES
	local i
	head -c "$3" /dev/zero >"$D/body"
	for i in {1..100}; do
		h2 -m 10 --data-binary "@$D/body" -o "$D/back" -w '%{http_code} %{size_download}\n' "$URL$2" || true
	done >"$D/all"
	sort "$D/all" | uniq -c && [ "$(sort "$D/all" | uniq -c | awk '{ print $1, $2, ($3 > 0) }')" = "100 $1 1" ]
}
check "refused early: the reply arrives each time" replies 405 /only 200000
check "the same with more than fits into a window" replies 405 /only 2000000
check "a fixed reply to an upload" replies 200 / 900000

nghttp_many() {
	cl timeout 200 nghttp -n -m 50 "$URL/echo/a" >"$D/nghttp" 2>&1 && ! grep -qi error "$D/nghttp"
}
check "nghttp: 50 requests at once" nghttp_many
nghttp_body() { [ "$(cl timeout 200 nghttp "$URL/")" = hello ]; }
check "nghttp: the body" nghttp_body

load() {
	cl timeout 300 h2load "$@" >"$D/h2load" 2>&1
	cat "$D/h2load"
	grep -q "requests: $N total, $N started, $N done, $N succeeded, 0 failed, 0 errored" "$D/h2load"
}
N=50000
check "h2load: 100 streams on each of 100 connections" load -n $N -c 100 -m 100 -t 1 "$URL/"
N=20000
check "h2load: the same to a backend" load -n $N -c 100 -m 100 -t 1 "$URL/echo/x"
head -c 1000 /dev/zero >"$D/kb"
check "h2load: with bodies" load -n $N -c 20 -m 20 -t 1 -d "$D/kb" "$URL/echo"

python3 "$here/h2/frames.py" --list >"$D/cases"
while read -r name; do
	check "GOAWAY: $name" cl timeout 200 python3 "$here/h2/frames.py" "$V4:8080" "$name"
done <"$D/cases"

gateway_stop
sed -i 's/^limits {/& idle_timeout = 1s/' "$D/gw.conf"
gateway_start
# RFC 9113 6.8: the GOAWAY for an idle client tells the last processed stream.
check_py "an idle connection: GOAWAY, then the end" "$V4" <<'EOF'
import socket, struct, sys
s = socket.create_connection((sys.argv[1], 8080), timeout=30)
s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"))
s.sendall(bytes.fromhex("000006010500000001828684410161"))
data, frames = b"", []
while True:
    more = s.recv(65536)
    if not more:
        break
    data += more
    while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
        n = int.from_bytes(data[:3], "big")
        frames.append((data[3], data[9:9 + n]))
        if data[3] == 6 and not data[4] & 1:
            s.sendall(b"\0\0\x08\x06\x01\0\0\0\0" + frames[-1][1])
        data = data[9 + n:]
goaways = [struct.unpack(">II", p[:8]) for t, p in frames if t == 7]
assert [t for t, _ in frames].count(1) == 1, frames
assert goaways == [(2**31 - 1, 0), (1, 0)], goaways
EOF
finish
