#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [ROUNDS [SECONDS]]: streams through sluice and through nginx, the same client and servers (sse.c, calls.c), in turns;
# of each figure the median of the rounds, and then:
#
#   ratio sse_added_gap_us            what an event takes more than over a direct connection to the same server (median), behind
#                                     sluice with its agent: 1 stream, 1,000 events/s
#   ratio sse_added_gap_over_nginx    the same, over nginx's
#   ratio relay_added_gap_us          what it takes behind relay.c, which only reads and writes: the least that a process of its own can
#   ratio streams_10k_cpu_over_nginx  processor time per event of all processes of the proxy: STREAMS (9,500; a proxy needs two descriptors
#                                     for each) with 40,000 events/s in all, with which the core of client and server is full
#   ratio bidi_messages_over_nginx    gRPC, 64 bidirectional calls on one connection, a message each way at a time: messages/s
#   ratio upload_over_nginx           a chunked upload of MIB (1,024), bytes per core second of the proxy's processes
#   ratio cancel_upcall_ms            from a client's reset to the upcall `cancel` of a backend, the longest of LEAVERS (200)
#   ratio cancel_server_ms            the same to the end of the connection of a server behind the agent
#
# sluice's backends of the last two are its own (echo, a sink), nginx's are servers of the same simplicity. The proxy has core 0,
# client and server core 1. Needs root and two cores; takes about two minutes.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
export BUILD="${BUILD:-${here%/bench/stream}/build}"
ROUNDS=${1:-3} SECONDS_EACH=${2:-4} STREAMS=${STREAMS:-9500} MIB=${MIB:-1024} LEAVERS=${LEAVERS:-200}
make -s -C "$here/../.." all bench/stream >&2
. "$here/../arena.sh" sb
programs=$BUILD/bench/stream
ulimit -n 20000 2>/dev/null || true

gw=(ip netns exec "$G" taskset -c) # each becomes the next, so that the id is the program's
cl() { timeout 120 ip netns exec "$C" taskset -c 1 "$@"; }

# nginx as its documents advise for streams: nothing is buffered in either direction. It resets clients that have not asked yet
# when fifteen sixteenths of worker_connections are in use, so there are more of these than descriptors.
cat >"$D/nginx.conf" <<CONF
daemon off; worker_processes 1; worker_rlimit_nofile 20000; pid $D/nginx.pid; error_log $D/nginx.err; user root;
events { worker_connections 24000; multi_accept on; }
http { access_log off; keepalive_timeout 300s; keepalive_requests 1000000000; tcp_nodelay on; client_max_body_size 0;
	client_body_temp_path $D/b; proxy_temp_path $D/p; fastcgi_temp_path $D/f; uwsgi_temp_path $D/u; scgi_temp_path $D/s;
	upstream server { server 127.0.0.1:8000; keepalive 512; keepalive_requests 1000000000; }
	upstream calls { server 127.0.0.1:50051; keepalive 512; keepalive_requests 1000000000; }
	server { listen 10.99.0.1:8081 backlog=4096; location / { proxy_pass http://server; proxy_http_version 1.1;
		proxy_set_header Connection ""; proxy_buffering off; proxy_request_buffering off; } }
	server { listen 10.99.0.1:8082 http2 backlog=4096; location / { grpc_pass grpc://calls; grpc_read_timeout 300s; } } }
CONF
cat >"$D/gw.conf" <<CONF
user = root
interface "$G" { }
workers { cpus = {0} }
agents { cpus = {0} }
listener web { address = "10.99.0.1" port = 8080 }
admin { port = 0 socket = none }
pool server { backend a { endpoint = "http://127.0.0.1:8000" concurrency = 20000 } max_queue = 20000 }
pool echo { backend a { endpoint = "shm://$D/echo.sock" } }
pool sink { backend a { endpoint = "shm://$D/sink.sock" } }
pool left { backend a { endpoint = "shm://$D/left.sock" } }
pool left_server { backend a { endpoint = "http://127.0.0.1:8001" } }
route "/" { pool = server }
route "/upload" { pool = sink stream = yes }
route "/upcall" { pool = left stream = yes }
route "/server" { pool = left_server stream = yes }
route "/sluice.demo.Echo/" { pool = echo stream = yes }
limits { max_connections = 32768 max_exchanges = 32768 address_connections = 1 address_exchanges = 1 address_reading = 1
	address_frames = 1 }
memory { frames = 256m }
CONF
"${gw[@]}" 1 "$programs/sse" serve 0.0.0.0 8000 & pids+=($!)
"${gw[@]}" 1 "$programs/calls" serve 127.0.0.1 50051 & pids+=($!)
"${gw[@]}" 1 "$BUILD/echo" --listen "shm://$D/echo.sock" >"$D/echo.log" & pids+=($!)
"${gw[@]}" 1 "$programs/sink" "shm://$D/sink.sock" & pids+=($!)
"${gw[@]}" 1 "$programs/leave" backend "shm://$D/left.sock" "$D/upcall.times" & pids+=($!)
"${gw[@]}" 1 "$programs/leave" server 127.0.0.1 8001 "$D/server.times" & pids+=($!)
"${gw[@]}" 0 "$programs/relay" 10.99.0.1 8083 10.99.0.1 8000 & pids+=($!)
"${gw[@]}" 0 nginx -c "$D/nginx.conf" & pids+=($!)
nginx_pid=$!
"${gw[@]}" 0 "$BUILD/sluice" run -c "$D/gw.conf" >"$D/gw.log" 2>&1 & pids+=($!)
sluice_pid=$!
gateway_ready

gap() { cl "$programs/sse" events 10.99.0.1 "$1" 1 1000 "$SECONDS_EACH" | awk '{ print $4 / 1000 }'; }
streams() { # PORT PID: processor microseconds per event, events/s
	local before
	before=$(cpu_ns "$2")
	cl "$programs/sse" events 10.99.0.1 "$1" "$STREAMS" $((STREAMS * 25)) "$SECONDS_EACH" >"$D/events"
	awk -v b="$before" -v a="$(cpu_ns "$2")" -v s="$SECONDS_EACH" '{ printf "%.3f %.0f\n", (a - b) / 1000 / $8, $2 / s }' "$D/events"
}
calls() { cl "$programs/calls" ask 10.99.0.1 "$1" 64 "$SECONDS_EACH" | awk '{ print $2 / $4 }'; }
upload() { # PORT PID: MiB per core second
	local before
	before=$(cpu_ns "$2")
	cl "$programs/sse" upload 10.99.0.1 "$1" "$MIB" >"$D/upload.out"
	awk -v b="$before" -v a="$(cpu_ns "$2")" '{ printf "%.1f %.1f\n", $2 / 1048576 / ((a - b) / 1e9), $2 / 1048576 / $4 }' "$D/upload.out"
}
for _ in $(seq "$ROUNDS"); do
	gap 8000 >>"$D/direct.gap"
	gap 8080 >>"$D/sluice.gap"
	gap 8081 >>"$D/nginx.gap"
	gap 8083 >>"$D/relay.gap"
done
for _ in $(seq "$ROUNDS"); do
	streams 8080 "$sluice_pid" >>"$D/sluice.streams"
	streams 8081 "$nginx_pid" >>"$D/nginx.streams"
	calls 8080 >>"$D/sluice.calls"
	calls 8082 >>"$D/nginx.calls"
	upload 8080 "$sluice_pid" >>"$D/sluice.upload"
	upload 8081 "$nginx_pid" >>"$D/nginx.upload"
done
for who in upcall server; do cl "$programs/leave" ask 10.99.0.1 8080 "/$who" "$LEAVERS" "$D/$who.times" >"$D/$who.left"; done
median() { cut -d' ' -f"${2:-1}" "$D/$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { awk -v n="$1" -v a="$2" -v b="$3" 'BEGIN { printf "ratio %s %.2f\n", n, a / b }'; }
row() {
	printf '%-42s sluice %10s  nginx %10s\n' "$1" "$(median "sluice.$2")" "$(median "nginx.$2")"
	ratio "$3" "$(median "sluice.$2")" "$(median "nginx.$2")"
}
direct=$(median direct.gap)
added() { awk -v a="$(median "$1.gap")" -v b="$direct" 'BEGIN { print a - b }'; }
printf 'an event, median us: sluice %s, nginx %s, relay %s, direct %s\n' "$(median sluice.gap)" "$(median nginx.gap)" "$(median relay.gap)" "$direct"
ratio sse_added_gap_us "$(added sluice)" 1
ratio sse_added_gap_over_nginx "$(added sluice)" "$(added nginx)"
ratio relay_added_gap_us "$(added relay)" 1
printf 'streams %s, events/s that came: sluice %s, nginx %s\n' "$STREAMS" "$(median sluice.streams 2)" "$(median nginx.streams 2)"
row "us of processor per event" streams streams_10k_cpu_over_nginx
row "gRPC messages/s both ways" calls bidi_messages_over_nginx
printf 'upload, MiB/s: sluice %s, nginx %s\n' "$(median sluice.upload 2)" "$(median nginx.upload 2)"
row "upload, MiB per core second" upload upload_over_nginx
for who in upcall server; do
	awk -v w="$who" '{ printf "a client has left, until the %-6s hears, us: median %s, longest %s\n", w, $4, $6 }' "$D/$who.left"
	ratio "cancel_${who}_ms" "$(awk '{ print $6 }' "$D/$who.left")" 1000
done
