#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TLS 1.3: curl, openssl, Python, gRPC and nginx get what they ask for; what is refused is refused by its name.
. "$(dirname "$0")/../lib.sh"

# certificate NAME KEY-OPTIONS SAN: $D/NAME.pem and .key, readable for the gateway's account.
certificate() {
	local name=$1 options=$2 san=$3
	# shellcheck disable=SC2086
	openssl req -x509 -newkey $options -nodes -keyout "$D/$name.key" -out "$D/$name.pem" -days 90 \
		-subj "/CN=$name" -addext "subjectAltName=$san" 2>/dev/null
	chown "$RUN_AS" "$D/$name.key"
	chmod 600 "$D/$name.key"
}
ec='ec -pkeyopt ec_paramgen_curve:P-256'
certificate a "$ec" "DNS:a.example,IP:$V4"
certificate b rsa:2048 "DNS:b.example"
certificate wild "$ec" "DNS:*.wild.example"

arena
curl_never_blocks
backend echo echo
gateway <<EOC
interface $GIF { }
listener plain { address = "$V4" port = 8080 }
listener safe {
	address = "$V4" port = 8443
	tls {
		certificate = {"$D/a.pem", "$D/b.pem", "$D/wild.pem"}
		key = {"$D/a.key", "$D/b.key", "$D/wild.key"}
	}
}
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
route "/" { respond { status = 200 body = "hello\n" } }
EOC

safe() { cl curl -sS --cacert "$D/a.pem" --resolve "a.example:8443:$V4" --max-time 20 "$@"; }
is() { [ "$("${@:2}")" = "$1" ] || { echo "found: $("${@:2}")"; return 1; }; }
check "HTTP/1.1" is $'hello\n1.1' safe --http1.1 -w '%{http_version}' -o - https://a.example:8443/
check "HTTP/2 by ALPN" is $'hello\n2' safe --http2 -w '%{http_version}' -o - https://a.example:8443/
asks() { is "$1" safe -o /dev/null -w '%{http_code}' "$2" -H "Host: $3" https://a.example:8443/; }
check "a host that the certificate does not cover: 421" asks 421 --http2 b.example
check "the same host, in other letters" asks 200 --http2 A.Example:8443
check "HTTP/1.1 knows no such thing" asks 200 --http1.1 b.example

# same LEN [CURL-OPTION...]: a body of random bytes comes back as it was sent
same() {
	head -c "$1" /dev/urandom >"$D/body"
	rm -f "$D/reply"
	safe -f -o "$D/reply" --data-binary "@$D/body" "${@:2}" https://a.example:8443/echo && cmp "$D/body" "$D/reply"
}
for len in 1 1402 1403 1404 16384 16385 102400 8388608; do
	check "$len bytes to a backend and back, HTTP/1.1" same $len --http1.1 -H "Expect:"
	check "$len bytes to a backend and back, HTTP/2" same $len --http2
done
for suite in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
	check "200,000 bytes with $suite" same 200000 --tls13-ciphers $suite
done
for curve in X25519 P-256 P-384; do
	check "the group $curve" is hello safe --curves $curve https://a.example:8443/
done

# s_client [OPTION...] <REQUEST: what it prints
s_client() { cl timeout 20 openssl s_client -connect "$V4:8443" -CAfile "$D/a.pem" "$@" 2>&1; }
ask='GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
subject() { printf "$ask" | s_client -ign_eof ${1:+-servername "$1"} "${@:2}" | sed -n 's/^subject=CN = //p'; }
check "a certificate by its name" is b subject b.example
check "in capitals, with a dot behind" is b subject B.EXAMPLE
check "by a wildcard" is wild subject x.wild.example
check "a wildcard stands for one label" is a subject x.y.wild.example
check "else the first" is a subject other.example
check "without a name too" is a subject "" -noservername

says() { # says TEXT COMMAND...: its output has this text
	"${@:2}" >"$D/said" 2>&1 </dev/null
	grep -qF -- "$1" "$D/said" || { tail -n 5 "$D/said"; return 1; }
}
check "TLS 1.2 gets protocol_version" says "alert protocol version" s_client -tls1_2
check "no protocol in common" says "no application protocol" s_client -alpn spdy/1
check "HelloRetryRequest" is hello safe --curves P-384:X25519 https://a.example:8443/
check "HTTP without TLS gets 400" is 400 cl curl -s --max-time 10 -o /dev/null -w '%{http_code}' "http://$V4:8443/"
metric_is() { [ "$(metric "$1")" -ge 1 ] || { echo "$1 is $(metric "$1")"; return 1; }; }
for end in protocol_version no_application_protocol plain_http; do
	check "that is counted as $end" within 10 metric_is "sluice_tls_ends_total{worker=\"0\",reason=\"$end\"}"
done

resumes() { # a second connection by the ticket of the first one
	rm -f "$D/ticket"
	printf "$ask" | s_client -ign_eof -sess_out "$D/ticket" >/dev/null
	printf "$ask" | s_client -ign_eof -sess_in "$D/ticket" >"$D/said"
	grep -q '^Reused, TLSv1.3' "$D/said" && grep -q '^hello' "$D/said"
}
check "a ticket resumes a session" resumes
check "that is counted" within 10 metric_is 'sluice_tls_resumed_total{worker="0"}'
said_times() { [ "$(grep -c "^$1" "$D/said")" = "$2" ]; }
k_updates() { # both kinds of KeyUpdate between two requests; a letter is a command only if it is read alone
	: >"$D/said"
	{
		printf 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
		within 20 said_times hello 1
		printf 'K\n'
		within 20 said_times KEYUPDATE 1
		printf 'k\n'
		within 20 said_times KEYUPDATE 2
		printf "$ask"
		within 20 said_times hello 2
	} | s_client >>"$D/said" 2>&1
	said_times hello 2
}
check "KeyUpdate, with and without an answer" k_updates
check "that is counted" within 10 metric_is 'sluice_tls_key_updates_total{worker="0"}'

check_py "Python's ssl: pieces, many requests, the end of the connection" "$D/a.pem" "$V4" <<'EOP'
import socket, ssl, sys
ctx = ssl.create_default_context(cafile=sys.argv[1])
def dial():
    raw = socket.create_connection((sys.argv[2], 8443), 10)
    return ctx.wrap_socket(raw, server_hostname="a.example")
def reply(s, cnt):
    got = b""
    while got.count(b"hello\n") < cnt:
        got += s.recv(65536) or exit("closed after %r" % got)
get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
with dial() as s:
    assert s.version() == "TLSv1.3"
    for c in get:  # a record for each byte
        s.send(bytes([c]))
    reply(s, 1)
    s.sendall(get * 200)
    reply(s, 200)
with dial() as s:
    s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    got = b""
    while True:
        piece = s.recv(65536)  # raises where close_notify is missing
        if not piece:
            break
        got += piece
    assert got.endswith(b"hello\n"), got
# Ten records in one segment, and one record in ten.
bio_in, bio_out = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = ctx.wrap_bio(bio_in, bio_out, server_hostname="a.example")
raw = socket.create_connection((sys.argv[2], 8443), 10)
raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True:
    try:
        tls.do_handshake()
        break
    except ssl.SSLWantReadError:
        raw.sendall(bio_out.read())
        bio_in.write(raw.recv(65536))
def hear(cnt):
    got = b""
    while got.count(b"hello\n") < cnt:
        try:
            got += tls.read(65536)
        except ssl.SSLWantReadError:
            bio_in.write(raw.recv(65536) or exit("closed after %r" % got))
for _ in range(10):
    tls.write(get)
raw.sendall(bio_out.read())
hear(10)
import time
tls.write(get)
record = bio_out.read()
for i in range(0, len(record), 7):
    raw.sendall(record[i:i + 7])
    time.sleep(0.002)
hear(1)
EOP
for cnt in 1 16; do
	check "h2load over $cnt connections" says "succeeded, 0 failed, 0 errored" cl timeout 200 h2load -n 4000 -c $cnt -m 16 "https://$V4:8443/"
done
check "wrk over TLS" says "requests in" cl timeout 200 wrk -t 1 -c 16 -d 1 "https://$V4:8443/"
# answered OPTION...: by `sluice load`, all that it asks; at least 64 replies
answered() {
	cl timeout 200 "$BUILD/sluice" load --json --connections 8 --depth 4 --time 50s --requests 64 --warmup 0ms "$@" >"$D/load" &&
		python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
r["requests"] >= 64 and not any(r["errors"].values()) or sys.exit(str(r))' "$D/load"
}
check "sluice load over TLS" answered "https://$V4:8443/"
check "sluice load with bodies of several records" answered --size 40000 --echo "https://$V4:8443/echo"
check "sluice load with a handshake for each request" answered --depth 1 --per-connection 1 "https://$V4:8443/"
check "sluice load over TLS through AF_XDP" answered --xdp "$CIF" "https://$V4:8443/"
check "sluice load through AF_XDP with bodies of several records" answered --xdp "$CIF" --size 40000 --echo "https://$V4:8443/echo"
says_connect() { cl "$BUILD/sluice" load --time 300ms --warmup 0ms "$@" | grep -qE 'errors +[1-9][0-9]*  connect [1-9]'; }
check "sluice load with TLS where there is none" within 30 says_connect "https://$V4:8080/"
finish
