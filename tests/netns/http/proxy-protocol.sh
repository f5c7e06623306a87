#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A balancer in front names its client, for the log, the limits and the backend; other peers are not believed.
. "$(dirname "$0")/../lib.sh"

arena
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=a.example \
	-addext subjectAltName=DNS:a.example -keyout "$D/a.key" -out "$D/a.pem" 2>/dev/null
chmod 600 "$D/a.key"
gateway_config <<EOC
interface $GIF { }
listener front { address = "$V4" port = 8080 proxy_protocol = {"10.99.0.0/24", "fd99::/64"} }
listener six { address = "$V6" port = 8080 proxy_protocol = {"10.99.0.0/24", "fd99::/64"} }
listener safe { address = "$V4" port = 8443 proxy_protocol = {"10.99.0.2"} tls { certificate = "$D/a.pem" key = "$D/a.key" } }
listener other { address = "$V4" port = 8081 proxy_protocol = {"192.0.2.0/24"} }
limits { address_connections = 4 header_timeout = 60s }
access_log { file = "$D/access.log" format = json }
route "/" { respond { status = 200 body = "served" } }
EOC
gateway_start
cat >"$D/say.py" <<'EOP'
"""say.py HOST PORT HEX...: sends the pieces one by one and prints what comes back, or how it ended."""
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
try:
    for piece in sys.argv[3:]:
        s.sendall(bytes.fromhex(piece))
        time.sleep(0.05)
    s.shutdown(socket.SHUT_WR)
    got = b""
    while more := s.recv(65536):
        got += more
    print(got.decode("latin-1").replace("\r\n", " "))
except OSError:
    print("reset")
EOP
hex() { printf '%b' "$1" | od -An -v -tx1 | tr -d ' \n'; }
say() { cl python3 "$D/say.py" "$@"; }
# told ADDRESS PATH: the access log has this client for the path
told() {
	local who="\"peer\": \"$1\"" what="\"path\": \"$2\""
	within 30 eval 'grep -F "$what" "$D/access.log" | grep -qF "$who"'
}
request() { hex "GET $1 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"; }
v1='PROXY TCP4 198.51.100.7 203.0.113.1 40000 80\r\n'
signature='\r\n\r\n\x00\r\nQUIT\n'

check "a line, then the request" eval 'say "$V4" 8080 "$(hex "$v1")$(request /line)" | grep -q served && told 198.51.100.7 /line'
check "the log names our door, not the balancer's" eval 'grep -F "\"path\": \"/line\"" "$D/access.log" | grep -F "\"listener\": \"front\""'
check "byte by byte" eval 'say "$V4" 8080 $(hex "$v1" | sed "s/../& /g" | head -c 60) $(hex "$v1" | tail -c +41) "$(request /bytes)" | grep -q served && told 198.51.100.7 /bytes'
check "binary, IPv6, over IPv6" eval 'say "$V6" 8080 "$(hex "$signature\x21\x21\x00\x24")20010db8000000000000000000000007$(printf "%032d" 1)9c400050$(request /six)" | grep -q served && told 2001:db8::7 /six'
check "curl, HTTP/1.1 and HTTP/2" eval 'for v in --http1.1 --http2-prior-knowledge; do cl curl -sS --max-time 10 --haproxy-protocol $v "http://$V4:8080/curl" | grep -q served || exit 1; done'
check "with TLS behind it" eval 'cl curl -sS --max-time 10 --haproxy-protocol --cacert "$D/a.pem" --resolve "a.example:8443:$V4" https://a.example:8443/safe | grep -q served && told 10.99.0.2 /safe'
check "a health check of the balancer itself" eval 'say "$V4" 8080 "$(hex "$signature\x20\x00\x00\x00")$(request /local)" | grep -q served && told 10.99.0.2 /local'

check "none: reset" eval '[ "$(say "$V4" 8080 "$(request /none)")" = reset ]'
check "malformed: reset" eval '[ "$(say "$V4" 8080 "$(hex "PROXY TCP4 1.2.3.4 x 1 2\r\n")$(request /bad)")" = reset ]'
check "half of one: reset" eval '[ "$(say "$V4" 8080 "$(hex "PROXY TCP4 1.2")")" = reset ]'
check "these are counted" eval '[ "$(metric "sluice_proxy_malformed_total{worker=\"0\"}")" -eq 3 ]'
check "and those that were believed" eval '[ "$(metric "sluice_proxy_headers_total{worker=\"0\"}")" -eq 7 ]'
check "from another address it is a bad request" eval 'say "$V4" 8081 "$(hex "$v1")$(request /other)" | grep -q "^HTTP/1.1 400"'
check "which is served without" eval 'say "$V4" 8081 "$(request /plain)" | grep -q served && told 10.99.0.2 /plain'

cat >"$D/many.py" <<'EOP'
"""many.py HOST PORT CLIENTS: holds 12 connections of so many clients behind the balancer; prints how many are served."""
import socket, sys
held, served = [], 0
for i in range(12):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
    held.append(s)
    client = i % int(sys.argv[3])
    try:
        s.sendall(f"PROXY TCP4 198.51.100.{client} 203.0.113.1 {40000 + i} 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        served += b"served" in s.recv(4096)
    except ConnectionError:
        pass
print(served)
EOP
check "the limit of an address is not the balancer's" eval '[ "$(cl python3 "$D/many.py" "$V4" 8080 3)" -eq 12 ]'
check "but that of each client behind it" eval '[ "$(cl python3 "$D/many.py" "$V4" 8080 1)" -eq 4 ]'
check_py "with TLS behind it, from the header on: no handshake has to be made for that" <<'EOP'
from raw import *
from select import select
held = [socket.create_connection((V4, 8443), 20) for _ in range(12)]
for i, s in enumerate(held):
    s.sendall(f"PROXY TCP4 198.51.100.77 203.0.113.1 {40000 + i} 443\r\n".encode())
def open_ones():
    ended = select(held, [], [], 0)[0]  # nobody says anything to us, so these have heard a reset
    return len(held) - len(ended)
if not eventually(30, lambda: open_ones() == 4):
    sys.exit(f"{open_ones()} are open")
EOP
finish
