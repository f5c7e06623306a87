#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gRPC over TLS with grpcio and grpc-js, which choose h2 by ALPN and check the certificate; nginx that asks by https.
. "$(dirname "$0")/../lib.sh"

arena
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=a.example \
	-addext "subjectAltName=DNS:a.example,IP:$V4" -keyout "$D/a.key" -out "$D/a.pem" 2>/dev/null
chown "$RUN_AS" "$D/a.key" && chmod 600 "$D/a.key"
backend echo echo
backend interop interop
backend slow echo --delay-us 300000
gateway <<CONFIG
interface "$GIF" { }
listener safe { address = "$V4" port = 8443 tls { certificate = "$D/a.pem" key = "$D/a.key" } }
pool echo { backend a { endpoint = "shm://$D/echo.sock" } batch { max_latency = 10s } max_body = 64m }
pool interop { backend a { endpoint = "shm://$D/interop.sock" } batch { max_latency = 10s } }
pool slow { backend a { endpoint = "shm://$D/slow.sock" } batch { max_latency = 10s } }
route "/sluice.demo.Echo/" { pool = echo }
route "/sluice.demo.Slow/" { pool = slow }
route "/grpc.testing.TestService/" { pool = interop }
route "/grpc.testing.TestService/StreamingInputCall" { pool = interop strip_prefix = no stream = yes }
route "/grpc.testing.TestService/FullDuplexCall" { pool = interop strip_prefix = no stream = yes }
route "/echo" { pool = echo forward_headers = {"x-forwarded-proto", "x-more"} }
route "/" { respond { status = 200 body = "hello\n" } }
limits { max_body = 64m }
memory { frames = 512m }
CONFIG

export CA=$D/a.pem
for name in empty_unary large_unary custom_metadata status_code_and_message timeout_on_sleeping_server thousand_calls_at_once \
	server_streaming; do
	check "grpcio: $name" cl timeout 200 /usr/bin/python3 "$here/grpc/cases.py" "$V4:8443" "$name"
done
mkdir -p "$BUILD/npm"
[ -e "$BUILD/npm/node_modules/@grpc/grpc-js" ] || (cd "$BUILD/npm" && timeout 120 npm install --no-audit --no-fund --silent @grpc/grpc-js) >"$D/npm.log" 2>&1
check "grpc-js is installed" test -e "$BUILD/npm/node_modules/@grpc/grpc-js/package.json"
export NODE_PATH=$BUILD/npm/node_modules
for name in empty_unary large_unary custom_metadata status_code_and_message client_streaming ping_pong server_streaming many_at_once; do
	check "grpc-js: $name" cl timeout 200 node "$here/grpc/cases.js" "$V4:8443" "$name"
done

cat >"$D/nginx.conf" <<EOC
worker_processes 1; daemon off; master_process off; pid $D/nginx.pid; error_log $D/nginx.log;
events { }
http {
	access_log off; client_max_body_size 64m; client_body_temp_path $D/body; proxy_temp_path $D/proxy;
	upstream sluice { server $V4:8443; keepalive 4; }
	server {
		listen 127.0.0.1:8000;
		location / {
			proxy_pass https://sluice; proxy_http_version 1.1; proxy_set_header Connection "";
			proxy_ssl_protocols TLSv1.3; proxy_ssl_server_name on; proxy_ssl_name a.example;
			proxy_ssl_verify on; proxy_ssl_trusted_certificate $D/a.pem; proxy_ssl_session_reuse on;
		}
	}
}
EOC
nsenter --net="/run/netns/$C" nginx -c "$D/nginx.conf" >/dev/null 2>&1 &
pid_of[nginx]=$!
asks() { cl curl -sS --max-time 60 "$@"; }
hello() { [ "$(asks http://127.0.0.1:8000/)" = hello ]; }
check "nginx as a client: a request" within 30 hello
large() {
	head -c 5000000 /dev/urandom >"$D/body.bin"
	asks --data-binary "@$D/body.bin" -o "$D/reply.bin" http://127.0.0.1:8000/echo && cmp "$D/body.bin" "$D/reply.bin"
}
check "5 MB and back" large
check "the backend knows that nginx came by https" eval 'asks -H "X-Forwarded-Proto: http" http://127.0.0.1:8000/echo | grep -qx "x-forwarded-proto: https"'
handshakes() { echo $(($(metric sluice_tls_full_total) + $(metric sluice_tls_resumed_total))); }
many() {
	local before
	before=$(handshakes)
	cl timeout 200 h2load --h1 -n 2000 -c 4 http://127.0.0.1:8000/ >"$D/said" 2>&1
	grep -q "succeeded, 0 failed, 0 errored" "$D/said" && [ $(($(handshakes) - before)) -le 8 ]
}
check "2,000 requests over few connections" many
kill -TERM "${pid_of[nginx]}"
wait "${pid_of[nginx]}"
unset "pid_of[nginx]"
finish
