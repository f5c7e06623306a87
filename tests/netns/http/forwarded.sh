#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From where a request came, as backends are told: by the gateway, over whatever a client says, or behind what proxies say.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=a.example -keyout "$D/a.key" -out "$D/a.pem" 2>/dev/null
chown "$RUN_AS" "$D/a.key" && chmod 600 "$D/a.key"
gateway <<EOC
interface $GIF { }
listener open { address = "$V4" port = 8080 }
listener six { address = "$V6" port = 8080 }
listener safe { address = "$V4" port = 8443 tls { certificate = "$D/a.pem" key = "$D/a.key" } }
listener behind { address = "$V4" port = 8081 forwarded = append }
listener told { address = "$V4" port = 8082 proxy_protocol = {"10.99.0.0/24"} }
listener chain { address = "$V4" port = 8083 proxy_protocol = {"10.99.0.0/24"} forwarded = append }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/" { pool = echo forward_headers = {"x-forwarded-for", "x-forwarded-proto", "X-Forwarded-Host", "forwarded", "x-more"} }
route "/some" { pool = echo forward_headers = {"x-forwarded-for"} }
route "/none" { pool = echo forward_headers = {"x-more"} }
route "/all" { pool = echo forward_headers = {"*"} }
EOC
# told WANT CURL-ARGUMENT...: what the backend got of them, joined by "; "
told() {
	local want=$1 got
	shift
	got=$(cl curl -sSk --max-time 20 "$@" | tail -n +2 | paste -sd '~' | sed 's/~/ ~ /g')
	echo "found    $got"
	echo "expected $want"
	[ "$got" = "$want" ]
}
liar=(-H 'X-Forwarded-For: 192.0.2.1' -H 'x-forwarded-for: 192.0.2.2' -H 'X-Forwarded-Proto: https' -H 'X-Forwarded-Host: evil'
	-H 'Forwarded: for=192.0.2.1' -H 'forwarded: for=_x;proto=https' -H 'X-Forwarded-Port: 1')
# Fields that a CGI server takes for the same ones, and fields that claim an authenticated client.
folded=(-H 'X_Forwarded_For: 192.0.2.1' -H 'x.forwarded_proto: https' -H 'sluice_client_subject: CN=admin' -H 'Sluice_Client-San: DNS:admin'
	-H 'content_length: 5')
for how in --http1.1 --http2-prior-knowledge; do
	check "$how: a client is not believed" told \
		'x-forwarded-for: 10.99.0.2 ~ x-forwarded-proto: http ~ x-forwarded-host: a.example:80 ~ forwarded: for=10.99.0.2;host="a.example:80";proto=http' \
		$how -H 'Host: a.example:80' "${liar[@]}" "http://$V4:8080/"
	check "$how: a proxy is, where it says so" told \
		'x-forwarded-for: 192.0.2.1, 192.0.2.2, 10.99.0.2 ~ x-forwarded-proto: https ~ x-forwarded-host: evil ~ forwarded: for=192.0.2.1, for=_x;proto=https, for=10.99.0.2;host="a.example:80";proto=http' \
		$how -H 'Host: a.example:80' "${liar[@]}" "http://$V4:8081/"
	check "$how: and may say nothing" told \
		'x-forwarded-for: 10.99.0.2 ~ x-forwarded-proto: http ~ x-forwarded-host: a ~ forwarded: for=10.99.0.2;host="a";proto=http' \
		$how -H 'Host: a' "http://$V4:8081/"
	check "$how: one field of them" told 'x-forwarded-for: 10.99.0.2' $how "${liar[@]}" "http://$V4:8080/some"
	check "$how: none of them" told '' $how "${liar[@]}" "http://$V4:8080/none"
	check "$how: all of them" told \
		'x-forwarded-for: 10.99.0.2 ~ x-forwarded-proto: http ~ x-forwarded-host: a ~ forwarded: for=10.99.0.2;host="a";proto=http' \
		$how -H 'Host: a' "${liar[@]}" "${folded[@]}" "http://$V4:8080/all"
done
for how in --http1.1 --http2; do
	check "$how over TLS" told \
		"x-forwarded-for: 10.99.0.2 ~ x-forwarded-proto: https ~ x-forwarded-host: a.example ~ forwarded: for=10.99.0.2;host=\"a.example\";proto=https" \
		$how --resolve "a.example:8443:$V4" -H 'Host: a.example' https://a.example:8443/
done
check "IPv6" told "x-forwarded-for: fd99::2 ~ x-forwarded-proto: http ~ x-forwarded-host: [$V6]:8080 ~ forwarded: for=\"[fd99::2]\";host=\"[$V6]:8080\";proto=http" \
	"http://[$V6]:8080/"
long=$(head -c 300 /dev/zero | tr '\0' a)
check "a host that is too long for one" told 'x-forwarded-for: 10.99.0.2 ~ x-forwarded-proto: http ~ forwarded: for=10.99.0.2;proto=http' \
	-H "Host: $long" "http://$V4:8080/"
check_py "behind PROXY headers of both versions, which name a port that is not ours" "$V4" <<'EOP'
import socket, struct, sys
told = {"192.0.2.77": socket.AF_INET, "2001:db8::77": socket.AF_INET6}
def v1(address):
    return f"PROXY TCP{'6' if ':' in address else '4'} {address} {address} 40000 443\r\n".encode()
def v2(address):
    family, at = told[address], socket.inet_pton(told[address], address)
    body = at + at + struct.pack(">HH", 40000, 443) + b"\xea\0\x01x"  # and a field that nobody knows
    return b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x21, 0x11 if family == socket.AF_INET else 0x21]) + struct.pack(">H", len(body)) + body
LOCAL = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
def asked(port, header):
    s = socket.create_connection((sys.argv[1], port), 20)
    s.sendall(header + b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: 203.0.113.9\r\nForwarded: for=_b\r\n\r\n")
    got = b"".join(iter(lambda: s.recv(65536), b"")).decode().split("\r\n\r\n", 1)[1].splitlines()
    return {k: v for k, v in (line.split(": ", 1) for line in got[1:])}
def check(port, header, who, quoted):
    before = ("203.0.113.9, ", "for=_b, ") if port == 8083 else ("", "")
    want = {"x-forwarded-for": before[0] + who, "x-forwarded-proto": "http", "x-forwarded-host": "a",
            "forwarded": f'{before[1]}for={quoted};host="a";proto=http'}
    got = asked(port, header)
    if got != want:
        sys.exit(f"{port} {header!r}\nfound    {got}\nexpected {want}")
for port in 8082, 8083:
    for address in told:
        for make in v1, v2:
            check(port, make(address), address, f'"[{address}]"' if ":" in address else address)
    check(port, LOCAL, "10.99.0.2", "10.99.0.2")
EOP
finish
