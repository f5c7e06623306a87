#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [ROUNDS [SECONDS]]: a multilayer perceptron in NumPy (mlp.py), asked by wrk with 1, 16 and 64 connections:
#
#   sluice   as a backend of the Python SDK, in adaptive batches of at most 64 with a bound of 50 ms
#   agent    the same model in uvicorn, behind sluice
#   nginx    the same uvicorn, behind nginx
#
# The model has core 1; gateway and client share core 0. Rounds alternate. Prints medians of requests/s, and of 50th and 99th
# percentiles in ms, and ratios over nginx. Replies are compared with the model's own before. Needs root and two cores; takes
# about two minutes.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
export BUILD="${BUILD:-${here%/bench/model}/build}" PYTHONDONTWRITEBYTECODE=1
ROUNDS=${1:-3} SECONDS_EACH=${2:-4}
make -s -C "$here/../.." all >&2
. "$here/../arena.sh" um

cat >"$D/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $D/nginx.pid; error_log $D/nginx.err; user root;
events { worker_connections 1024; multi_accept on; }
http { access_log off; keepalive_requests 1000000000; client_body_temp_path $D/b; proxy_temp_path $D/p; client_body_buffer_size 16k;
	fastcgi_temp_path $D/f; uwsgi_temp_path $D/u; scgi_temp_path $D/s;
	upstream model { server 127.0.0.1:8000; keepalive 128; }
	server { listen 10.99.0.1:8081; location / { proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; } } }
CONF
cat >"$D/gw.conf" <<CONF
user = nobody
interface "$G" { }
workers { cpus = {0} }
agents { cpus = {0} }
listener web { address = "10.99.0.1" port = 8080 }
admin { port = 0 socket = none }
pool sdk { backend a { endpoint = "shm://$D/model.sock" } batch { policy = adaptive max_latency = 50ms } }
pool http { backend a { endpoint = "http://127.0.0.1:8000" } }
route "/sdk" { pool = sdk methods = {POST} }
route "/http" { pool = http methods = {POST} }
limits { address_requests = 0 }
CONF
cat >"$D/post.lua" <<'LUA'
local f = io.open(os.getenv("BODY"), "rb")
wrk.method, wrk.body = "POST", f:read("*a")
f:close()
LUA

in_gateway() { # NAME COMMAND...
	local name=$1
	shift
	ip netns exec "$G" taskset -c "$@" >"$D/$name.log" 2>&1 &
	pids+=($!)
}
PYTHONPATH=$BUILD/python in_gateway sdk 1 setpriv --regid "$(id -g nobody)" --clear-groups /usr/bin/python3 "$here/sdk_model.py" "shm://$D/model.sock"
in_gateway uvicorn 1 uvicorn --app-dir "$here" --log-level warning --no-access-log --port 8000 http_model:app
in_gateway nginx 0 nginx -c "$D/nginx.conf"
for _ in $(seq 200); do [ -S "$D/model.sock" ] && ip netns exec "$G" ss -Hltn | grep -q ':8000 ' && break; sleep 0.1; done
in_gateway gw 0 "$BUILD/sluice" run -c "$D/gw.conf"
gateway_ready

declare -A url=([sluice]=http://10.99.0.1:8080/sdk [agent]=http://10.99.0.1:8080/http [nginx]=http://10.99.0.1:8081/)
export BODY=$D/body
ip netns exec "$C" taskset -c 0 /usr/bin/python3 "$here/check.py" "$BODY" "${url[@]}" ||
	{ tail "$D"/*.log; exit 1; }

# one NAME CONNECTIONS: a line "requests/s p50 p99", in ms
one() {
	local out
	out=$(ip netns exec "$C" taskset -c 0 wrk -t1 -c"$2" -d"${SECONDS_EACH}s" --latency -s "$D/post.lua" "${url[$1]}" 2>&1)
	echo "$out" | awk 'function ms(t) { return t ~ /us$/ ? t / 1000 : t ~ /ms$/ ? t + 0 : t * 1000 }
		/Requests\/sec/ { rate = $2 } $1 == "50%" { p50 = ms($2) } $1 == "99%" { p99 = ms($2) } /Non-2xx|Socket errors/ { bad = 1 }
		END { if (bad || !rate) exit 1; print rate, p50, p99 }' || { echo "$out" >&2; return 1; }
}
for name in sluice agent nginx; do one $name 16 >"$D/warm"; done
for c in 1 16 64; do
	for _ in $(seq "$ROUNDS"); do
		for name in sluice agent nginx; do one $name $c >>"$D/$name.$c"; done
	done
done
median() { cut -d' ' -f"$2" "$D/$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
for c in 1 16 64; do
	for name in sluice agent nginx; do
		printf '%s_c%d\t%s\trequests/s\n' $name $c "$(median $name.$c 1)"
		printf '%s_p50_c%d\t%s\tms\n' $name $c "$(median $name.$c 2)"
		printf '%s_p99_c%d\t%s\tms\n' $name $c "$(median $name.$c 3)"
	done
	for name in sluice agent; do
		awk -v n="$name" -v c=$c -v a="$(median $name.$c 1)" -v b="$(median nginx.$c 1)" \
			'BEGIN { printf "ratio model_%s_throughput_c%d_over_nginx %.2f\n", n, c, a / b }'
		awk -v n="$name" -v c=$c -v a="$(median $name.$c 3)" -v b="$(median nginx.$c 3)" \
			'BEGIN { printf "ratio model_%s_p99_c%d_over_nginx %.2f\n", n, c, a / b }'
	done
done
