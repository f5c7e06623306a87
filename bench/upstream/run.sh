#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [ROUNDS [SECONDS]]: an unmodified nginx as server, behind sluice with its agent and behind nginx as proxy, asked by the
# same client through veth: `sluice load` through AF_XDP, as in bench-peers. Rounds alternate; the median of each is printed, and
# their ratio:
#
#   ratio http_throughput_c64_over_nginx, ..._c256_...   requests/s
#   ratio http_p50_c1_over_nginx                         median latency of one connection
#   ratio http_cpu_per_request_over_nginx                processor time of all processes of the proxy's side, at 64 connections
#   ratio wrk_throughput_c64_over_nginx                  requests/s, with wrk as the client
#   ratio grpc_throughput_over_nginx                     unary calls/s of a server on gRPC's C core, 64 at a time, by h2load
#
# Then what python.sh, latency.sh and rdma.sh say: a backend in Python beside one in C, the RPC over tcp://, and, in a guest, an agent
# behind RDMA beside the same behind tcp://.
#
# The proxy's processes share core 0, the client and the server core 1. Needs root and two cores; takes about five minutes.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
export BUILD="${BUILD:-${here%/bench/upstream}/build}"
ROUNDS=${1:-3} SECONDS_EACH=${2:-4}
make -s -C "$here/../.." all bench/upstream >&2
. "$here/../arena.sh" ub

nginx_conf() { # NAME WHAT-IS-SERVED
	cat >"$D/$1.conf" <<CONF
daemon off; worker_processes 1; pid $D/$1.pid; error_log $D/$1.err; user root;
events { worker_connections 8192; }
http { access_log off; keepalive_timeout 300s; keepalive_requests 1000000000; client_body_temp_path $D/$1.b; proxy_temp_path $D/$1.p;
	fastcgi_temp_path $D/$1.f; uwsgi_temp_path $D/$1.u; scgi_temp_path $D/$1.s;
	upstream grpc { server 127.0.0.1:50051; keepalive 512; keepalive_requests 1000000000; }
	upstream server { server 127.0.0.1:8000; keepalive 512; keepalive_requests 1000000000; }
	server { $2 } }
CONF
}
nginx_conf server 'listen 127.0.0.1:8000 backlog=4096; location / { return 200 "hello, this is a reply of some bytes\n"; }'
# shellcheck disable=SC2016
nginx_conf proxy 'listen 10.99.0.1:8081 backlog=4096; location / { proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }
	} server { listen 10.99.0.1:8082 http2 backlog=4096; location / { grpc_pass grpc://grpc; }'
cat >"$D/gw.conf" <<CONF
user = nobody
interface "$G" { }
workers { cpus = {0} }
agents { cpus = {0} }
listener web { address = "10.99.0.1" port = 8080 }
admin { port = 0 socket = none }
pool app { backend a { endpoint = "http://127.0.0.1:8000" } }
pool grpc { backend a { endpoint = "h2c://127.0.0.1:50051" } }
route "/" { pool = app }
route "/sluice.demo.Echo/" { pool = grpc }
CONF
ip netns exec "$G" taskset -c 1 "$BUILD/bench/peers/grpc_server" 127.0.0.1:50051 >"$D/grpc.log" 2>&1 & pids+=($!)
ip netns exec "$G" taskset -c 1 nginx -c "$D/server.conf" & pids+=($!)
ip netns exec "$G" taskset -c 0 nginx -c "$D/proxy.conf" & pids+=($!)
proxy_pid=$!
ip netns exec "$G" taskset -c 0 "$BUILD/sluice" run -c "$D/gw.conf" >"$D/gw.log" 2>&1 & pids+=($!)
sluice_pid=$!
gateway_ready

# one PORT CONNECTIONS PID: "requests/s p50-us cpu-us-per-request"
one() {
	local before after
	before=$(cpu_ns "$3")
	ip netns exec "$C" "$BUILD/sluice" load --json --quiet --xdp "$C" --cpu 1 --connections "$2" --time "${SECONDS_EACH}s" --warmup 0ms \
		"http://10.99.0.1:$1/a" >"$D/load"
	after=$(cpu_ns "$3")
	python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
any(r["errors"].values()) and sys.exit(str(r))
print(r["requests_per_s"], r["latency_ns"]["p50"] / 1000, round(int(sys.argv[2]) / 1000 / r["requests"], 2))' "$D/load" $((after - before))
}
# by_wrk PORT CONNECTIONS: requests/s
by_wrk() {
	local out
	out=$(ip netns exec "$C" taskset -c 1 wrk -t1 -c"$2" -d"${SECONDS_EACH}s" "http://10.99.0.1:$1/a" 2>&1)
	echo "$out" | awk '/Requests\/sec/ { rate = $2 } /Non-2xx|Socket errors/ { bad = 1 } END { if (bad || !rate) exit 1; print rate }' ||
		{ echo "$out" >&2; return 1; }
}
# calls PORT: calls/s; an answer that is no message counts as none
calls() {
	local out
	printf '\0\0\0\0\5hello' >"$D/frame"
	out=$(ip netns exec "$C" taskset -c 1 h2load -t1 -c4 -m16 "-D$SECONDS_EACH" -H 'content-type: application/grpc' -H 'te: trailers' \
		-d "$D/frame" "http://10.99.0.1:$1/sluice.demo.Echo/Echo" 2>&1)
	echo "$out" | awk '/^finished in/ { rate = $4 } /^requests:/ { bad = $10 + $12 } /^traffic:/ { gsub(/[()]/, ""); }
		END { if (bad || !rate) exit 1; print rate }' || { echo "$out" >&2; return 1; }
}
one 8080 16 "$sluice_pid" >/dev/null
one 8081 16 "$proxy_pid" >/dev/null
for c in 1 64 256; do
	for _ in $(seq "$ROUNDS"); do
		one 8080 "$c" "$sluice_pid" >>"$D/sluice.$c"
		one 8081 "$c" "$proxy_pid" >>"$D/nginx.$c"
	done
done
for _ in $(seq "$ROUNDS"); do
	by_wrk 8080 64 >>"$D/sluice.wrk"
	by_wrk 8081 64 >>"$D/nginx.wrk"
	calls 8080 >>"$D/sluice.grpc"
	calls 8082 >>"$D/nginx.grpc"
done
median() { cut -d' ' -f"$2" "$D/$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
row() { # NAME CONNECTIONS COLUMN
	local a b
	a=$(median "sluice.$2" "$3") b=$(median "nginx.$2" "$3")
	printf '%-40s sluice %10s  nginx %10s\n' "$1" "$a" "$b"
	awk -v n="$1" -v a="$a" -v b="$b" 'BEGIN { printf "ratio %s_over_nginx %.2f\n", n, a / b }'
}
row http_throughput_c64 64 1
row http_throughput_c256 256 1
row http_p50_c1 1 2
row http_cpu_per_request 64 3
row wrk_throughput_c64 wrk 1
row grpc_throughput grpc 1
"$here/python.sh"
"$here/latency.sh" # the round trip to a backend, without HTTP
"$here/rdma.sh"
