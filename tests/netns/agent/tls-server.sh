#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Servers that speak TLS, behind agents: nginx over HTTP/1.1 and HTTP/2, and servers that must be refused.
. "$(dirname "$0")/../lib.sh"

arena
chmod 777 "$D"
key="ec -pkeyopt ec_paramgen_curve:P-256"
# authority NAME
authority() { openssl req -x509 -newkey $key -nodes -days 9 -subj "/CN=$1" -keyout "$D/$1.key" -out "$D/$1.pem" 2>/dev/null; }
# certificate NAME ISSUER DAYS SUBJECT NAMES
certificate() {
	openssl req -newkey $key -nodes -subj "/CN=$4" -keyout "$D/$1.key" -out "$D/$1.csr" 2>/dev/null
	openssl x509 -req -in "$D/$1.csr" -CA "$D/$2.pem" -CAkey "$D/$2.key" -set_serial "$RANDOM" -days "$3" -out "$D/$1.pem" \
		-extfile <(printf 'subjectAltName=%s\n' "$5") 2>/dev/null
	chgrp "$(id -g "$RUN_AS")" "$D/$1.key"
	chmod 640 "$D/$1.key"
}

# shellcheck disable=SC2086 # $key is two words
authority ca
authority other-ca
certificate good ca 9 x DNS:server.test,IP:127.0.0.1
certificate other ca 9 server.test DNS:other.test
certificate stranger other-ca 9 x DNS:server.test
certificate expired ca -1 x DNS:server.test
certificate subject ca 9 server.test email:a@server.test
certificate client ca 9 gateway DNS:gateway.test
certificate client2 ca 9 gateway2 DNS:gateway.test
for _ in $(seq 80); do cat "$D/client.pem"; done >"$D/chain.pem" # some 40 KB in a handshake
cp "$D/ca.pem" "$D/late.pem"
sed '/BEGIN/,/END/{/BEGIN/n;/END/!s/^/?/}' "$D/ca.pem" >>"$D/late.pem"

mkdir "$D/www" && chmod 777 "$D/www"
head -c 10000000 /dev/urandom >"$D/www/large"
chmod a+r "$D/www/large"
cat >"$D/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $D/nginx.pid; error_log $D/nginx.err;
events { worker_connections 1024; }
http {
	log_format tls '\$server_port \$ssl_protocol \$ssl_session_reused "\$ssl_server_name" "\$ssl_alpn_protocol" \$scheme \$uri \$http_user_agent';
	access_log $D/nginx.log tls;
	client_body_temp_path $D/nb; proxy_temp_path $D/np; fastcgi_temp_path $D/nf; uwsgi_temp_path $D/nu; scgi_temp_path $D/ns;
	ssl_protocols TLSv1.3; ssl_certificate $D/good.pem; ssl_certificate_key $D/good.key; ssl_session_tickets on;
	client_max_body_size 64m; keepalive_requests 4;
	server { listen 127.0.0.1:8443 ssl; root $D/www;
		location /n1/ { alias $D/www/; dav_methods PUT; }
		location /named/ { alias $D/www/; }
		location = /n1/scheme { return 200 "\$scheme"; } location /probed/ { return 200; }
		location = /health { return 200 ok; } }
	server { listen 127.0.0.1:8444 ssl http2; root $D/www; location /n2/ { alias $D/www/; dav_methods PUT; }
		location = /n2/scheme { return 200 "\$scheme \$server_protocol"; } }
}
CONF
gw nginx -c "$D/nginx.conf" >"$D/nginx.out" 2>&1 &
pid_of[nginx]=$!
gw /usr/bin/python3 "$here/agent/tls_evil.py" "$D" >"$D/evil.log" 2>&1 &
pid_of[evil]=$!
gw openssl s_server -accept 127.0.0.1:9456 -Verify 1 -verify_return_error -CAfile "$D/ca.pem" -cert "$D/good.pem" \
	-key "$D/good.key" -www >"$D/verify.log" 2>&1 &
pid_of[verify]=$!
within 30 grep -qs listening "$D/evil.log" || { cp "$D/evil.log" "$D/out"; say_failed "the servers do not start"; }

pools=''
# pool NAME ENDPOINT TLS: with a route
pool() {
	pools+="pool $1 { backend a { endpoint = \"$2\" } tls { $([[ $3 == *ca_file* ]] || echo "ca_file = \"$D/ca.pem\"") $3 } slow_start = 0 }
route \"/$1\" { pool = $1 }
"
}
name='server_name = "server.test"'
pool n1 https://127.0.0.1:8443 ''
pool named https://127.0.0.1:8443 "$name"
pool n2 h2://127.0.0.1:8444 "$name"
for kind in other:9441 stranger:9442 expired:9443 old:9444 plain:9445 silent:9446 good:9448 cut:9449 subject:9450 \
	abrupt:9452; do
	pool "${kind%:*}" "https://127.0.0.1:${kind#*:}" "$name"
done
pool address https://127.0.0.1:9441 ''
pool unverified https://127.0.0.1:9442 'verify = no'
pool mutual https://127.0.0.1:9447 "$name certificate = \"$D/client.pem\" key = \"$D/client.key\""
pool anonymous https://127.0.0.1:9447 "$name"
pool pair 'https://127.0.0.1:9456" } backend b { endpoint = "https://127.0.0.1:9448' "$name"
pool chain https://127.0.0.1:9453 "$name certificate = \"$D/chain.pem\" key = \"$D/client.key\""
pool dotted https://127.0.0.1:9454 'server_name = "server.test."'
pool late https://127.0.0.1:9455 "$name ca_file = \"$D/late.pem\""
pool no-alpn h2://127.0.0.1:9448 "$name"
pool probed https://127.0.0.1:8443 '} health { path = "/health" interval = 200ms timeout = 200ms'
gateway_config <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
admin { address = "127.0.0.1" port = 9900 }
limits { max_body = 64m address_frames = 1 }
memory { frames = 512m }
$pools
CONF
started=$SECONDS
gateway_spawn # it is not ready: some servers never are

ask() { cl curl -sS --max-time 20 "http://$V4:8080/$1" "${@:2}"; }
within 60 eval '[ "$(gw curl -s -o /dev/null -w "%{http_code}" "http://127.0.0.1:9900/readyz?pool=n1")" = 200 ]'
take_baseline
is() { [ "$(ask "$1" | tee "$D/said")" = "$2" ]; }
check "nginx by its address" within 30 is n1/scheme https
check "TLS 1.3, no SNI for an address, and HTTP/1.1 by ALPN" within 10 grep -q '^8443 TLSv1.3 . "-" "http/1.1" https /n1/scheme' "$D/nginx.log"
check "the server's name is told and checked" within 30 eval 'ask named/large -o /dev/null -f'
check "as SNI" within 10 grep -q '^8443 TLSv1.3 . "server.test" "http/1.1"' "$D/nginx.log"
check "HTTP/2, whose scheme is https" within 30 is n2/scheme "https HTTP/2.0"
check "by ALPN" within 10 grep -q '^8444 TLSv1.3 . "server.test" "h2"' "$D/nginx.log"
same() { ask "$1/large" | cmp - "$D/www/large"; }
check "10 MB come down over HTTP/1.1" same n1
check "and over HTTP/2" same n2
up() { ask "$1/put-$1" -f -T "$D/www/large" && cmp "$D/www/put-$1" "$D/www/large"; }
check "10 MB go up over HTTP/1.1" up n1
check "and over HTTP/2" up n2
resumed() { # PORT: of four connections in turn all but the first, which have a ticket each
	for _ in $(seq 20); do ask "$2" -o /dev/null; done
	within 10 eval '[ "$(grep -c "^'"$1"' TLSv1.3 r" "$D/nginx.log")" -ge 3 ]'
}
check "sessions are resumed" resumed 8443 n1/scheme
check "over HTTP/2, too" resumed 8444 n2/scheme
check "health checks go over TLS" within 30 eval 'grep -q "TLSv1.3 .*/health sluice-health" "$D/nginx.log" && ask probed/large -f -o /dev/null'

# refused NAME REASON: no request passes, and the log has the reason, at most once a minute.
refused() {
	local status
	status=$(ask "$1/x" -o /dev/null -w '%{http_code}')
	echo "$1: status $status"
	[ "$status" = 503 ] || return 1
	within 10 grep "agent: $1/a: cannot connect to .*: $2; retrying" "$D/gw.log" || return 1
	[ "$(grep -c "agent: $1/a: cannot" "$D/gw.log")" -le $((1 + (SECONDS - started) / 60)) ]
}
# The agent has not tried to connect.
refused_file() { [ "$(ask "$1/x" -o /dev/null -w '%{http_code}')" = 503 ] && grep "agent: $1/a: .*$2; retrying" "$D/gw.log"; }
certificate="its certificate is refused"
check "a certificate of another name" refused other "$certificate: hostname mismatch"
check "of another address" refused address "$certificate: IP address mismatch"
check "of a name in the subject only" refused subject "$certificate: hostname mismatch"
check "of an unknown issuer" refused stranger "$certificate: unable to get local issuer certificate"
check "an expired one" refused expired "$certificate: certificate has expired"
check "a server of TLS 1.2" refused old 'TLS: tlsv1 alert protocol version'
check "a server without TLS" refused plain 'TLS: .*'
check "one that closes in the handshake" refused cut 'it closed the connection in the TLS handshake'
check "one that never answers: the time to connect ends it" refused silent 'no answer'
check "HTTP/2 needs ALPN" refused no-alpn 'it chose no protocol by ALPN; expected h2'
check "with verify = no any certificate will do" within 30 is unverified/x stranger
check "HTTP/1.1 does without ALPN" within 30 is good/x good
check "a name with a dot at its end" within 30 is dotted/x dotted
check "a connection that its server cuts when idle leaves its ticket" within 30 is abrupt/reused True
check "a file with a bad certificate is refused" refused_file late 'ca_file: a certificate in it cannot be read'

check "a client certificate is shown" within 30 is mutual/client gateway
check "with a long chain, too" within 30 is chain/client gateway
check "without one the server's alert is in the log, and the server is down" within 30 refused anonymous 'TLS: .*certificate required'
reason() { gw curl -s http://127.0.0.1:9900/stats | grep -q '"name":"anonymous/a","why":"TLS: [^"]*certificate required"'; }
check "and in the statistics" within 10 reason
posts() { # all of the other server, though half would go to the one that refuses
	for _ in $(seq 30); do [ "$(ask pair/x -X POST)" = good ] || return 1; done
}
check "requests go to another server at once, also those that must not be repeated" posts

check_py "a body without close_notify at its end never looks whole" <<'PY'
from raw import *
expect("whole", get("/good/until-close").body, b"z" * 100000)
for name in "until-cut", "short":
    for _ in range(3):
        c = Client()
        c.send(b"GET /good/%s HTTP/1.1\r\nHost: x\r\n\r\n" % name.encode())
        try:
            r = c.reply()
            expect(name, r.status, 502)
        except EOFError:
            pass
PY
check "the log says why" within 10 grep -q 'good/a: a reply broke off: it closed the connection without close_notify' "$D/gw.log"

renewed() { is mutual/client gateway2; }
cp "$D/client.pem" "$D/client.pem.1"
for part in pem key; do cat "$D/client2.$part" >"$D/client.$part"; done
check "files are read once" is mutual/client gateway
kill -HUP "$gateway_pid"
check "and again by a reload" within 30 renewed
echo nonsense >"$D/client.pem"
kill -HUP "$gateway_pid"
check "after an error the former ones stay, which is said" within 30 grep -q 'agent: mutual/a: certificate: there is none in the file; the former files stay' "$D/gw.log"
check "and serve" renewed
cp "$D/ca.pem" "$D/late.pem"
kill -HUP "$gateway_pid"
check "a reload repairs a server that was refused" within 30 is late/x late
finish
