#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume
# Ten thousand connections with TLS that have asked once and say nothing more: what each takes of the gateway's memory.
# `make bench-tls` has a hundred thousand of them.
. "$(dirname "$0")/../lib.sh"

arena
sources=()
for i in {11..15}; do
	ip -n "$C" addr add "10.99.0.$i/24" dev "$CIF"
	sources+=("10.99.0.$i")
done
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=a.example -keyout "$D/a.key" -out "$D/a.pem" 2>/dev/null
chown "$RUN_AS" "$D/a.key" && chmod 600 "$D/a.key"
gateway <<EOC
interface $GIF { }
listener safe { address = "$V4" port = 8443 tls { certificate = "$D/a.pem" key = "$D/a.key" } }
route "/" { respond { status = 200 body = "hello\n" } }
limits { max_connections = 20000 idle_timeout = 3600s }
EOC
rss() { awk '$1 == "VmRSS:" { print $2 * 1024 }' "/proc/$(gateway_child)/status"; }
# hold NAME COUNT: so many more
hold() {
	mkfifo "$D/$1.end"
	nsenter --net="/run/netns/$C" "$BUILD/tests/netns/idle_tls" "$V4" 8443 "$2" "${sources[@]}" <>"$D/$1.end" >"$D/$1" 2>&1 &
	pid_of[$1]=$!
	within 120 grep -q connections "$D/$1"
	cat "$D/$1"
	grep -qx "$2 connections" "$D/$1"
}
# Memory allocated once, with the first ones, is not theirs.
check "the first 500" hold few 500
before=$(rss)
check "10,000 more are open" hold many "$MANY"
each=$((($(rss) - before) / MANY))
of_tls=$(metric sluice_tls_conn_bytes)
echo "    $NAME: $each bytes for each connection, of which TLS has $of_tls"
check "a connection with all that belongs to it takes at most 1 KiB" [ "$each" -le 1024 ]
check "and not nothing" [ "$each" -ge 256 ]
check "one that was there first is served" [ "$(cl curl -sSk --max-time 20 "https://$V4:8443/")" = hello ]
for name in few many; do
	kill -KILL "${pid_of[$name]}"
	unset "pid_of[$name]"
done
finish
