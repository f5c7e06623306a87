#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: TLS beside nginx and HAProxy, with the same certificate and ciphers, each on CPU 0, clients on CPU 1. The client is
# `sluice load` through AF_XDP, as in bench-peers. Rows of wrk stand beside, with OpenSSL's records and the kernel's TCP, on a
# CPU that is busier than the servers'. Needs root, two cores, and about eight minutes (ROUNDS=3 SECONDS_EACH=2 IDLE=100000).
# Each figure is the median of the rounds, which take the servers in turn; CPU time is that of a server's threads. In the flood
# row the attacker and the handshake threads have CPU 1, worker and clients the other.
# In the rows of large replies the client's kernel receives on the client's CPU. On veth the sender's CPU does it otherwise, and
# hundreds of segments of a MiB would count as the server's work. nginx's kernel passes on a few pieces of 64 KB instead.
set -u
tls=$(cd "$(dirname "$0")" && pwd -P) # `here` is lib.sh's
export BUILD="${BUILD:-${tls%/bench/tls}/build}"
make -s -C "$tls/../.." all bench/tls >&2 || exit 1
RUN_AS=nobody
. "$tls/../../tests/netns/lib.sh"

ROUNDS=${ROUNDS:-3} T=${SECONDS_EACH:-2} IDLE=${IDLE:-100000}
AT_ONCE=8 # clients that shake hands
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$D/a.key" -out "$D/a.pem" -days 90 -subj /CN=a 2>/dev/null
cat "$D/a.pem" "$D/a.key" >"$D/both.pem"
chown "$RUN_AS" "$D/a.key"
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$D/rsa.key" -out "$D/rsa.pem" -days 90 -subj /CN=rsa 2>/dev/null
chown "$RUN_AS" "$D/rsa.key"
head -c 1048576 /dev/zero >"$D/mib"
arena
sources=()
for i in {11..20}; do
	ip -n "$C" addr add "10.99.0.$i/24" dev "$CIF"
	sources+=("10.99.0.$i")
done
in_group taskset -c 1 "$BUILD/bench/tls/lend" "shm://$D/lend.sock" >"$D/lend.log" 2>&1 &
pid_of["lend"]=$!
within 10 test -S "$D/lend.sock" || { cat "$D/lend.log"; exit 1; }
gateway <<EOC
interface $GIF { }
workers { cpus = {0} }
listener safe { address = "$V4" port = 8443 tls { certificate = {"$D/a.pem"} key = {"$D/a.key"} } }
listener rsa { address = "$V4" port = 8444 tls { certificate = {"$D/rsa.pem"} key = {"$D/rsa.key"} } }
listener plain { address = "$V4" port = 8080 }
pool lend { batch { max_latency = 10s } backend a { endpoint = "shm://$D/lend.sock" } }
route "/mib" { pool = lend }
route "/" { respond { status = 200 body = "hello\n" } }
limits { max_connections = $((IDLE + 10000)) address_connections = 1 idle_timeout = 3600s }
EOC
cat >"$D/nginx.conf" <<EOC
worker_processes 1; worker_cpu_affinity 01; daemon off; master_process off; pid $D/nginx.pid; error_log $D/nginx.log;
events { worker_connections 4096; }
http { access_log off; keepalive_requests 1000000000; sendfile on;
server { listen 9443 ssl; ssl_certificate $D/a.pem; ssl_certificate_key $D/a.key; ssl_protocols TLSv1.3;
	ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; ssl_session_tickets on;
	location / { default_type text/plain; return 200 "hello\n"; }
	location /mib { alias $D/mib; } } }
EOC
cat >"$D/haproxy.cfg" <<EOC
global
	nbthread 1
	maxconn 4096
	ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
	ssl-default-bind-options ssl-min-ver TLSv1.3
defaults
	mode http
	timeout client 60s
	timeout connect 5s
	timeout server 60s
frontend f
	bind $V4:9444 ssl crt $D/both.pem
	http-request return status 200 content-type text/plain string "hello\n"
EOC
# Not by gw: the process that is begun has to be the server itself.
nsenter --net="/run/netns/$G" taskset -c 0 nginx -c "$D/nginx.conf" >/dev/null 2>&1 &
pid_of["nginx"]=$!
nsenter --net="/run/netns/$G" taskset -c 0 haproxy -f "$D/haproxy.cfg" >/dev/null 2>&1 &
pid_of["haproxy"]=$!
for task in /proc/"$(gateway_child)"/task/*; do taskset -pc 0 "${task##*/}" >/dev/null; done
declare -A server=([sluice]=$(gateway_child) [nginx]=${pid_of["nginx"]} [haproxy]=${pid_of["haproxy"]})
declare -A url=([sluice]=https://$V4:8443 [rsa]=https://$V4:8444 [nginx]=https://$V4:9443 [haproxy]=https://$V4:9444 [plain]=http://$V4:8080)
server[plain]=${server[sluice]} server[rsa]=${server[sluice]}
up() { cl curl -sfk --max-time 2 "${url[$1]}/" | grep -q hello; }
for s in sluice nginx haproxy; do within 10 up $s || { echo "$s does not answer"; exit 1; }; done

cpu_ns() { awk '{ s += $1 } END { printf "%.0f\n", s }' /proc/"${server[$1]}"/task/*/schedstat; }
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
client() { cl taskset -c 1 "$@"; }
note() { echo "$3" >>"$D/$1.$2"; } # NAME SERVER VALUE
# in_us TIME: of wrk's, with its unit
in_us() { awk -v t="$1" 'BEGIN { v = t + 0; u = t; gsub(/[0-9.]/, "", u); print v * (u == "s" ? 1e6 : u == "ms" ? 1000 : 1) }'; }
wrk_on=1
# wrk_of SERVER OPTION...: sets $cnt, $rate (a second), $p50 and $p99 (us), $each (ns of the server's processor for one)
wrk_of() {
	local s=$1 before spent
	shift
	before=$(cpu_ns "$s")
	cl taskset -c "$wrk_on" wrk -t 1 -d "$T" --latency --timeout 10s "$@" >"$D/wrk" 2>&1
	spent=$(($(cpu_ns "$s") - before))
	cnt=$(awk '$2 == "requests" && $3 == "in" { print $1 }' "$D/wrk")
	[ "${cnt:-0}" -gt 0 ] && ! grep -qE 'Non-2xx|Socket errors' "$D/wrk" || { cat "$D/wrk"; echo "$s does not answer"; exit 1; }
	rate=$(awk '$1 == "Requests/sec:" { print $2 }' "$D/wrk")
	p50=$(in_us "$(awk '$1 == "50%" { print $2 }' "$D/wrk")")
	p99=$(in_us "$(awk '$1 == "99%" { print $2 }' "$D/wrk")")
	each=$((spent / cnt))
}
# load_of SERVER OPTION...: the same variables, by `sluice load`
load_of() {
	local s=$1 before spent
	shift
	before=$(cpu_ns "$s")
	cl "$BUILD/sluice" load --json --quiet --xdp "$CIF" --cpu 1 --warmup 0ms --time "${T}s" "$@" "${url[$s]}/" >"$D/load"
	spent=$(($(cpu_ns "$s") - before))
	read -r cnt rate p50 p99 <<<"$(python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
print(0 if any(r["errors"].values()) else r["requests"], r["requests_per_s"], *(r["latency_ns"][q] / 1000 for q in ("p50", "p99")))' "$D/load")"
	[ "${cnt:-0}" -gt 0 ] || { cat "$D/load"; echo "$s does not answer"; exit 1; }
	each=$((spent / cnt))
}
# resumed_of SERVER: handshakes per second of the server's processor, by clients side by side
resumed_of() {
	local s=$1 before i clients=()
	before=$(cpu_ns "$s")
	for ((i = 0; i < AT_ONCE; i++)); do
		client openssl s_time -connect "${url[$s]#https://}" -time "$T" -tls1_3 -reuse >"$D/s_time.$i" 2>/dev/null &
		clients+=($!)
	done
	wait "${clients[@]}"
	awk -v ns=$(($(cpu_ns "$s") - before)) '/connections in .* real seconds/ { n += $1 } END { printf "%.1f\n", n * 1e9 / ns }' "$D"/s_time.*
}
rss() { awk '$1 == "VmRSS:" { print $2 * 1024 }' "/proc/${server[sluice]}/status"; }
threads_to() { # NAME PROCESSOR: the gateway's threads that are called so
	local task
	for task in /proc/"${server[sluice]}"/task/*; do
		grep -q "^$1" "$task/comm" && taskset -pc "$2" "${task##*/}" >/dev/null
	done
}
for _ in $(seq "$ROUNDS"); do
	for s in sluice nginx haproxy plain; do
		load_of $s --connections 64
		note rate $s "$rate"
		note each $s "$each"
		wrk_of $s -c 64 "${url[$s]}/"
		note wrk $s "$rate"
	done
	for s in sluice nginx; do
		load_of $s --connections 1
		note p50 $s "$p50"
	done
	for _ in {1..5}; do # side by side: the host has its moods, and OpenSSL is most of both
		for s in sluice nginx; do
			load_of $s --connections 64 --per-connection 1
			note new $s "$(awk -v e="$each" 'BEGIN { printf "%.1f", 1e9 / e }')"
		done
		for s in sluice nginx; do note reuse $s "$(resumed_of $s)"; done
	done
	"$ARENA" receive "$C" 2
	for s in sluice nginx; do
		wrk_of $s -c 4 "${url[$s]}/mib"
		note mib $s "$each"
	done
	"$ARENA" receive "$C" 0
	threads_to handshake 1
	wrk_on=0
	wrk_of rsa -c 16 -d $((T + 2)) "${url[rsa]}/"
	note p99 quiet "$p99"
	# When its clients have their connections.
	nsenter --net="/run/netns/$C" bash -c 'sleep 0.5; exec taskset -c 1 "$@"' - "$BUILD/tests/netns/hello" "$V4" 8444 60 1024 "${sources[@]}" >"$D/flood" &
	pid_of[flood]=$!
	wrk_of rsa -c 16 -d $((T + 2)) "${url[rsa]}/"
	kill -INT "${pid_of[flood]}"
	wait "${pid_of[flood]}"
	unset "pid_of[flood]"
	note p99 flood "$p99"
	echo "flood: $(cat "$D/flood")"
	threads_to handshake 0
	wrk_on=1
done
# hold COUNT: so many connections more, which stay
hold() {
	mkfifo "$D/end.$1"
	nsenter --net="/run/netns/$C" "$BUILD/tests/netns/idle_tls" "$V4" 8443 "$1" "${sources[@]}" <>"$D/end.$1" >"$D/idle.$1" 2>&1 &
	pid_of[idle$1]=$!
	within 600 grep -q connections "$D/idle.$1"
	grep -qx "$1 connections" "$D/idle.$1" || { cat "$D/idle.$1"; exit 1; }
}
hold 1000 # memory that is allocated once counts here
before=$(rss)
hold "$IDLE"
idle=$((($(rss) - before) / IDLE))
echo "$IDLE idle connections: $idle bytes each, of which TLS has $(metric sluice_tls_conn_bytes)"

of() { median <"$D/$1.$2"; }
ratio() { awk -v n="$1" -v a="$2" -v b="$3" 'BEGIN { printf "ratio %s %.2f\n", n, a / (b > 0 ? b : 1) }'; }
# pairs WHAT: the median of sluice over nginx, of measurements that followed each other
pairs() { paste "$D/$1.sluice" "$D/$1.nginx" | awk '{ print $1 / $2 }' | median; }
for what in rate wrk each p50 p99 new reuse mib; do
	for f in "$D/$what".*; do echo "median $what ${f##*.} $(median <"$f")"; done
done
ratio tls_throughput_c64_over_nginx "$(of rate sluice)" "$(of rate nginx)"
ratio tls_throughput_c64_over_haproxy "$(of rate sluice)" "$(of rate haproxy)"
ratio tls_wrk_c64_over_nginx "$(of wrk sluice)" "$(of wrk nginx)"
ratio tls_p50_c1_over_nginx "$(of p50 sluice)" "$(of p50 nginx)"
ratio tls_bulk_over_nginx "$(of mib nginx)" "$(of mib sluice)"
ratio handshakes_ecdsa_over_nginx "$(pairs new)" 1
ratio handshakes_resumed_over_nginx "$(pairs reuse)" 1
ratio p99_under_handshake_flood_over_quiet "$(of p99 flood)" "$(of p99 quiet)"
ratio idle_tls_bytes "$idle" 1
ratio tls_over_plain_cpu "$(of each sluice)" "$(of each plain)"
gateway_stop
