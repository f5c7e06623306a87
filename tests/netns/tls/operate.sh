#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Certificates as operators have them: what `sluice check` finds, reloads, clients' certificates, tickets of two gateways.
. "$(dirname "$0")/../lib.sh"

cd "$D" || exit 1
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" && chown "$RUN_AS" "$1.key" && chmod 600 "$1.key"; }
# ca NAME; issue CA NAME SUBJECT SAN DAYS [N]: a certificate of it, longer by N times 16 KB; with the CA's behind it: NAME.chain
pad() { for ((i = 1; i <= $1; i++)); do echo "1.2.3.4.$i=ASN1:UTF8String:$(head -c 16000 /dev/zero | tr '\0' p)"; done; }
ca() { key "$1" && openssl req -x509 -key "$1.key" -subj "/CN=$1" -days 90 -out "$1.pem" -addext "basicConstraints=critical,CA:TRUE"; }
issue() {
	key "$2" && openssl req -new -key "$2.key" -subj "$3" -out "$2.csr" &&
		openssl x509 -req -in "$2.csr" -CA "$1.pem" -CAkey "$1.key" -CAcreateserial -days "$5" -out "$2.pem" \
			-extfile <(echo "subjectAltName=$4"; pad "${6:-0}") && cat "$2.pem" "$1.pem" >"$2.chain"
}
{
	ca root && ca stranger && ca clients
	issue root a /CN=a "DNS:a.example" 90
	issue root new /CN=new "DNS:a.example" 80
	issue root soon /CN=soon "DNS:soon.example" 5
	issue clients alice "/O=Shop/CN=alice" "URI:spiffe://shop/alice,DNS:alice.example" 90
	issue clients large /CN=large DNS:a.example 90 2
	issue clients huge /CN=huge DNS:a.example 90 5
	issue root long /CN=long DNS:a.example 90 5
	issue root longer /CN=longer DNS:a.example 90 9
	issue stranger mallory "/O=Shop/CN=alice" "DNS:alice.example" 90
	openssl rand 80 >tickets && chown "$RUN_AS" tickets && chmod 600 tickets
	cat root.pem a.pem >wrong.chain
	cp a.key open.key && chmod 644 open.key
	head -c 81 /dev/urandom >short && chown "$RUN_AS" short && chmod 600 short
} >"$D/made" 2>&1 || { cat "$D/made"; exit 1; }

arena
# mistakes TLS-BLOCK TEXT: what check says of a listener with it, and that it names the line
mistakes() {
	cat >"$D/bad.conf" <<EOC
interface $GIF { }
listener safe {
	port = 443
	tls { $1 }
}
route "/" { respond { status = 200 } }
user = $RUN_AS
EOC
	gw "$SLUICE" check -c "$D/bad.conf" >"$D/said" 2>&1 && { cat "$D/said"; return 1; }
	grep -q "^$D/bad.conf:4: .*$2" "$D/said" || { cat "$D/said"; return 1; }
}
pair() { echo "certificate = {\"$D/$1\"} key = {\"$D/$2\"}"; }
check "a certificate that is not there" mistakes "$(pair none.pem a.key)" "none.pem.*No such file"
check "one that is no PEM" mistakes "$(pair tickets a.key)" "found no certificate"
check "a key that is not there" mistakes "$(pair a.pem none.key)" "none.key.*No such file"
check "a key of another certificate" mistakes "$(pair a.pem new.key)" "is not that of"
check "a key that others can read" mistakes "$(pair a.pem open.key)" "that others may use"
chmod 660 open.key
check "and one that its group can write" mistakes "$(pair a.pem open.key)" "that others may use"
check "a chain in the wrong order" mistakes "$(pair wrong.chain root.key)" "did not issue"
check "a certificate without a key" mistakes "certificate = {\"$D/a.pem\"}" "1 certificates and 0 keys"
check "no certificate" mistakes "" "0 certificates"
check "keys of tickets of another length" mistakes "$(pair a.pem a.key) ticket_keys = \"$D/short\"" "81 bytes"
check "clients' issuers that are not there" mistakes "$(pair a.pem a.key) client_ca = \"$D/none\"" "No such file"
check "a chain that is too long" mistakes "$(pair longer.chain longer.key)" "more than 131072 bytes"
check "an unknown word" mistakes "$(pair a.pem a.key) client = maybe" "client = .maybe."

config() { # config CERTIFICATE: four listeners
	gateway_config <<EOC
interface $GIF { }
listener safe { address = "$V4" port = 8443 tls { certificate = {"$D/$1.chain"} key = {"$D/$1.key"} } }
listener soon { address = "$V4" port = 8444 tls { certificate = {"$D/soon.chain"} key = {"$D/soon.key"} ticket_keys = "$D/tickets" } }
listener must { address = "$V4" port = 8445 tls { certificate = {"$D/a.chain"} key = {"$D/a.key"} client_ca = "$D/clients.pem" } }
listener may { address = "$V4" port = 8446 tls { certificate = {"$D/a.chain"} key = {"$D/a.key"} client_ca = "$D/clients.pem" verify_client = optional } }
listener long { address = "$V4" port = 8447 tls { certificate = {"$D/long.chain"} key = {"$D/long.key"} } }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo forward_headers = {"sluice-client-subject", "x-more"} }
route "/" { respond { status = 200 body = "hello\n" } }
access_log { file = "$D/log/access" }
EOC
}
mkdir "$D/log" && chown "$RUN_AS" "$D/log"
backend echo echo
config a
warned() { gw "$SLUICE" check -c "$D/gw.conf" | grep "^$D/gw.conf:3: warning: certificate \"$D/soon.chain\" ends on"; }
chmod 640 soon.key # the group may read it
gateway_start
check "check warns of what ends soon" warned
check "and of nothing else" eval '[ "$(gw "$SLUICE" check -c "$D/gw.conf" | grep -c "warning: certificate")" -eq 1 ]'
check "the log says when each ends" grep -q "listener safe: certificate $D/a.chain ends on" "$D/gw.log"
check "so does status" eval 'gw "$SLUICE" status --admin 127.0.0.1:9900 | grep "listener must: certificate .*a.chain ends on"'
ends() { date -d "$(openssl x509 -in "$1" -noout -enddate | cut -d = -f 2)" +%s; }
check "and a metric" eval '[ "$(metric "sluice_tls_certificate_end_seconds{listener=\"soon\"")" -eq "$(ends soon.pem)" ]'
check "no part of a key is in the log" eval '! grep -qF -f <(sed "/-----/d" a.key soon.key) gw.log'

safe() { cl curl -sS --max-time 10 --cacert "$D/root.pem" --resolve "a.example:$1:$V4" "${@:2}" "https://a.example:$1/echo"; }
as() { echo "--cert $D/$1.pem --key $D/$1.key"; }
fails() { ! "$@" >"$D/said" 2>&1; }
# shellcheck disable=SC2046
{
	check "a required certificate is told to the backend" eval \
		'safe 8445 $(as alice) | grep -qx "sluice-client-subject: CN=alice,O=Shop"'
	check "with its alternative names" eval \
		'safe 8445 $(as alice) | grep -qx "sluice-client-san: URI:spiffe://shop/alice,DNS:alice.example"'
	check "over HTTP/1.1 too" eval 'safe 8445 --http1.1 $(as alice) | grep -qx "sluice-client-subject: CN=alice,O=Shop"'
	check "none: refused" fails safe 8445
	check "of another issuer: refused" fails safe 8445 $(as mallory)
	check "an optional one is told" eval 'safe 8446 $(as alice) | grep -q "CN=alice"'
	check "and may be left out" eval 'safe 8446 | grep -qx "GET "'
	check "who says it without one is not believed" eval '! safe 8446 -H "Sluice-Client-Subject: CN=admin" | grep -i admin'
	check "nor without TLS's asking" eval '! safe 8443 -H "sluice-client-subject: CN=admin" -H "sluice-client-san: DNS:x" | grep -i client'
	check "nor beside a true one" eval '[ "$(safe 8445 $(as alice) -H "sluice-client-subject: CN=admin" | grep -c subject)" = 1 ]'
}
# shellcheck disable=SC2046
{
	check "a client's certificate of 32 KB is taken" eval 'safe 8446 $(as large) | grep -qx "sluice-client-subject: CN=large"'
	check "one of 80 KB is refused" fails safe 8446 $(as huge)
}
check "by an alert" grep -qi "alert" "$D/said"
check "and a line of the log" within 30 grep -q "tls: a client's certificates were refused: found more than 65536 bytes" "$D/gw.log"
check "a server's certificate of 80 KB arrives" eval 'safe 8447 | grep -qx "GET "'
check_py "the protocol is the one that ALPN has chosen" "$D/root.pem" <<'PY'
from raw import *
import ssl
def answer(protocol, said):
    ctx = ssl.create_default_context(cafile=sys.argv[1])
    ctx.set_alpn_protocols([protocol])
    s = ctx.wrap_socket(connect(port=8443), server_hostname="a.example")
    s.sendall(said)
    got = b""
    try:
        while len(got) < 200 and (piece := s.recv(4096)):
            got += piece
    except OSError:
        pass
    return got
http1 = b"GET /echo HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
h2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
expect("http/1.1", answer("http/1.1", http1)[:12], b"HTTP/1.1 200")
expect("http/1.1 behind h2", b"HTTP/1.1" in answer("h2", http1), False)
expect("h2 behind http/1.1", answer("http/1.1", h2)[:9], b"HTTP/1.1 ")
expect("h2 behind http/1.1: status", answer("http/1.1", h2)[9:10] in (b"4", b"5"), True)
PY
check "that is counted as certificate_required" eval '[ "$(metric "sluice_tls_ends_total{worker=\"0\",reason=\"certificate_required\"}")" -ge 1 ]'
check "the access log has cipher and name" within 30 grep -q '"listener": "safe", "tls": "TLSv1.3", "cipher": "TLS_AES_[^"]*", "resumed": false, "sni": "a.example"' "$D/log/access"

ask='GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
# ticket PORT FILE: takes one; reuse PORT FILE: it is good
ticket() { printf "$ask" | cl timeout 30 openssl s_client -connect "$V4:$1" -ign_eof -sess_out "$2" >/dev/null 2>&1; }
reuse() { printf "$ask" | cl timeout 30 openssl s_client -connect "$V4:$1" -ign_eof -sess_in "$2" 2>&1 | grep -q "^Reused, TLSv1.3"; }
ticket 8443 "$D/own" && ticket 8444 "$D/shared"
check "a ticket of its own keys" reuse 8443 "$D/own"
check "which the access log tells" within 30 grep -q '"listener": "safe", "tls": "TLSv1.3", "cipher": "TLS_AES_[^"]*", "resumed": true' "$D/log/access"
check "a ticket of a listener that asks for nothing is none where certificates are asked for" fails reuse 8445 "$D/own"

cat >"$D/keep.py" <<'EOP'
import socket, ssl, sys, time, os
ctx = ssl._create_unverified_context()
s = ctx.wrap_socket(socket.create_connection((sys.argv[1], 8443), 10))
def ask():
    s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    got = b""
    while not got.endswith(b"hello\n"):
        got += s.recv(4096) or exit("closed")
ask()
open(sys.argv[2], "w").close()
while not os.path.exists(sys.argv[2] + ".go"):
    time.sleep(0.05)
ask()
EOP
cl python3 "$D/keep.py" "$V4" "$D/kept" &
keeper=$!
within 30 test -e "$D/kept"
config new
check "a reload" gw "$SLUICE" reload -c "$D/gw.conf"
serves() { [ "$(cl timeout 30 openssl s_client -connect "$V4:8443" </dev/null 2>/dev/null | sed -n 's/^subject=CN = //p')" = "$1" ]; }
check "takes the new certificate" within 30 serves new
touch "$D/kept.go"
check "and closes no connection" wait $keeper
check "a ticket of before it" reuse 8443 "$D/own"
chmod 644 "$D/new.key"
check "a reload with a key that others can read" fails gw "$SLUICE" reload -c "$D/gw.conf"
check "changes nothing" serves new
chmod 600 "$D/new.key"
check_leftovers
gateway_stop
gateway_start
check "another gateway does not know a ticket of own keys" fails reuse 8443 "$D/own"
check "but one of shared keys" reuse 8444 "$D/shared"

finish
