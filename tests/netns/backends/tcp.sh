#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Backends on another host without RDMA: tcp://, by IPv4, IPv6 and name; killed, drained, silent, with another key; and as
# the fallback of an endpoint that cannot be dialled.
. "$(dirname "$0")/../lib.sh"

arena
for k in key other; do
	head -c 32 /dev/urandom | base64 >"$D/$k"
	chgrp "$(id -g "$RUN_AS")" "$D/$k"
	chmod 640 "$D/$k"
done

# tcp_backend NAME NAMESPACE ENDPOINT [ARGUMENT...]
tcp_backend() {
	local name=$1 ns=$2 endpoint=$3
	shift 3
	nsenter --net="/run/netns/$ns" "$BUILD/echo" --listen "$endpoint" --key-file "${key:-$D/key}" "$@" >>"$D/$name.log" 2>&1 </dev/null &
	pid_of[$name]=$!
}
tcp_backend four "$C" tcp://10.99.0.2:7471
tcp_backend six "$C" "tcp://[fd99::2]:7472"
tcp_backend name "$G" tcp://localhost:7473
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool four { batch { max_latency = 10s } backend a { endpoint = "tcp://10.99.0.2:7471" key_file = "$D/key" } }
pool six { batch { max_latency = 10s } backend a { endpoint = "tcp://[fd99::2]:7472" key_file = "$D/key" } }
pool name { batch { max_latency = 10s } backend a { endpoint = "tcp://localhost:7473" key_file = "$D/key" } }
pool both {
	batch { max_latency = 10s }
	backend a { endpoint = "tcp://10.99.0.2:7471" key_file = "$D/key" }
	backend b { endpoint = "tcp://[fd99::2]:7472" key_file = "$D/key" }
}
pool fall {
	batch { max_latency = 10s }
	backend a { endpoint = "rdma://10.99.0.2:7471" fallback = "tcp://10.99.0.2:7471" key_file = "$D/key" }
}
route "/four" { pool = four deadline = 60s }
route "/six" { pool = six deadline = 60s }
route "/name" { pool = name deadline = 60s }
route "/both" { pool = both deadline = 60s idempotent = yes }
route "/fall" { pool = fall deadline = 60s }
EOF

is_up() { [ "$(metric "sluice_backend_up{worker=\"0\",pool=\"$1\"")" -eq "${2:-1}" ]; }
answers() { [ "$(cl curl -sf --max-time 5 -d "$2" "http://$V4:8080/$1")" = "$2" ]; }
returns_bytes() {
	head -c "$2" /dev/urandom >"$D/body"
	cl curl -sSf --max-time 60 --data-binary "@$D/body" -H 'Expect:' -o "$D/back" "http://$V4:8080/$1" && cmp "$D/back" "$D/body"
}
for p in four six name fall; do
	check "$p: the backend is up" within 30 is_up $p
	check "$p: a small body" within 30 answers $p hello
	check "$p: 3000 bytes" returns_bytes $p 3000
	check "$p: 6 MB" returns_bytes $p 6000000
done
way='tcp 10.99.0.2:7471 from 10.99.0.1:[0-9]* TLS_'
check "the log says which way" grep -q "four/a is up for worker 0: $way" "$D/gw.log"
check "so does the status" eval 'gw "$SLUICE" status | grep -q "four/a, worker 0: up.*$way"'
check "and the doctor" eval 'gw "$SLUICE" doctor -c "$D/gw.conf" >"$D/doctor"; grep -q "four/a *tcp://10.99.0.2:7471: tcp 10.99.0.2:7471 from 10.99.0.1, TLS 1.3" "$D/doctor"'

check "the fallback: in the log" grep -q "fall/a: rdma://.*; worker 0 uses its fallback tcp://10.99.0.2:7471: $way" "$D/gw.log"
check "in the status" eval 'gw "$SLUICE" status | grep -q "fall/a, worker 0: up.*(fallback)"'
check "in the metrics" test "$(metric 'sluice_backend_on_fallback{worker="0",pool="fall"')" -eq 1
check "by the doctor" grep -q 'fall/a *rdma://10.99.0.2:7471: .*; its fallback tcp://10.99.0.2:7471: tcp' "$D/doctor"
check "of no other" test "$(metric 'sluice_backend_on_fallback')" -eq 1

# The bytes between the two, captured beside them. The client's own request shows that the capture works.
check_py "nothing is readable on the way" "$CIF" <<'EOF'
import socket
from raw import *
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
s.bind((sys.argv[1], 0))
s.settimeout(0.1)
r = post("/four", b"read me if you can " * 20)
expect("status", r.status, 200)
seen = {"client": 0, "backend": 0, "readable": 0}
end = time.monotonic() + 0.5
while time.monotonic() < end:
    try:
        f = s.recv(65536)
    except TimeoutError:
        continue
    if f[12:14] == b"\x08\x00" and f[23] == 6:
        ports = {int.from_bytes(f[34:36], "big"), int.from_bytes(f[36:38], "big")}
        readable = b"read me" in f
        if 8080 in ports:
            seen["client"] += readable
        if 7471 in ports:
            seen["backend"] += len(f) > 300
            seen["readable"] += readable
expect("seen at the client", seen["client"] > 0, True)
expect("seen at the backend", seen["backend"] > 0, True)
expect("readable there", seen["readable"], 0)
EOF

kill_backend four
check "a death is noticed" within 30 is_up four 0
check "503 without a backend" within 30 eval '[ "$(cl curl -s -o /dev/null -w "%{http_code}" --max-time 5 -d x "http://$V4:8080/four")" = 503 ]'
key=$D/other tcp_backend four "$C" tcp://10.99.0.2:7471
check "one with another key is not used, and the stats say why" within 30 eval 'admin /stats | grep -q "tcp://10.99.0.2:7471: the backend has another key"'
check "it stays down" is_up four 0
kill_backend four
tcp_backend four "$C" tcp://10.99.0.2:7471
check "one with the key is, again" within 30 is_up four
check "and answers" within 30 answers four again

# Backends end under load: repeatable requests are repeated, and a backend that drains loses nothing.
load() { cl wrk -t1 -c8 -d3s --timeout 20s "http://$V4:8080/both" >"$D/wrk"; }
no_errors() { ! grep -q 'Non-2xx\|Socket errors' "$D/wrk" && grep -q '[1-9][0-9]* requests in' "$D/wrk"; }
under_load() {
	load &
	local pid=$!
	sleep 1
	"$@"
	sleep 0.5
	tcp_backend six "$C" "tcp://[fd99::2]:7472"
	wait $pid
	cat "$D/wrk"
	no_errors
}
drain_six() {
	end_process "${pid_of[six]}" 10 && [ "$status" -eq 0 ]
	unset 'pid_of[six]'
}
check "both are up" within 30 is_up both 2
check "a backend drains under load: every request is answered" under_load drain_six
check "it is back" within 30 is_up both 2
check "one is killed under load: so it is" under_load kill_backend six
check "it is back, too" within 30 is_up both 2

# No FIN and no RST tell that it is gone.
ip -n "$C" route add blackhole 10.99.0.1/32
check "a host that is cut off is noticed" within 30 is_up four 0
ip -n "$C" route del blackhole 10.99.0.1/32
check "and found again" within 30 is_up four
check "and answers again" within 30 answers four again
finish
