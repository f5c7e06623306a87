#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How connections end: half-closed, killed in the middle of a transfer, or gone without a word.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 half_close = answer }
listener v6 { address = "$V6" port = 8080 half_close = answer }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
route "/" { respond { status = 200 body = "hello\n" } }
limits { header_timeout = 3s body_timeout = 3s send_timeout = 3s idle_timeout = 3s }
EOF

check_py "the client shuts down its half and still gets all of its replies" <<'EOF'
import random
from raw import *
random.seed(4)
for host in (V4, V6):
    for n in (0, 1, 1448, 100000, 8 << 20):
        body = random.randbytes(n)
        c = Client(host)
        c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % n + body)
        c.s.shutdown(socket.SHUT_WR)
        r = c.reply()
        expect(f"{host} {n}", (r.status, r.body == body), (200, True))
        expect(f"{host} {n}: what follows", c.s.recv(1), b"")
    c = Client(host)
    c.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
    c.s.shutdown(socket.SHUT_WR)
    expect("pipelined", [c.reply().body for _ in range(20)], [b"hello\n"] * 20)
    expect("what follows them", c.s.recv(1), b"")
EOF

# killed ADDRESS HOST: clients that post and read on eight connections die at eight moments.
killed() {
	local i
	for i in 05 10 15 20 25 30 35 40; do
		nsenter --net="/run/netns/$C" "$BUILD/tests/netns/bulk" "$1" 8080 16384 4096 8 >"$D/bulk" 2>&1 &
		pid_of[bulk]=$!
		sleep "0.$i"
		alive "${pid_of[bulk]}" || { cat "$D/bulk"; return 1; }
		kill -KILL "${pid_of[bulk]}"
		wait "${pid_of[bulk]}" 2>/dev/null
		unset "pid_of[bulk]"
	done
	[ "$(cl curl -sS -g --max-time 10 "http://$2:8080/")" = hello ]
}
for address in "$V4 $V4" "$V6 [$V6]"; do
	before=$(stat_sum tcp.bytes_in)
	# shellcheck disable=SC2086  # address and host
	check "clients killed in the middle of transfers, $address" killed $address
	check "which had begun, $address" [ "$(stat_sum tcp.bytes_in)" -gt $((before + 1000000)) ]
	check_leftovers
done

# The address of a client is taken away from it: not even a RST comes. vanish ADDRESS/PREFIX HOST
vanish() {
	ip -n "$C" addr add "$1" dev "$CIF" nodad 2>/dev/null || ip -n "$C" addr add "$1" dev "$CIF"
	check_py "clients that vanish, ${1%/*}" "${1%/*}" "$2" "ip addr del $1 dev $CIF" <<'EOF'
import subprocess
from raw import *
cs = []
for part in ("idle", "head", "upload", "download") * 4:
    s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    s.settimeout(10)
    s.bind((sys.argv[1], 0))
    s.connect((sys.argv[2], PORT))
    n = 2 << 20
    if part == "head":
        s.sendall(b"POST /echo HT")
    elif part != "idle":
        body = b"v" * (n if part == "download" else n // 2)
        s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % n + body)
    if part == "download":
        s.recv(1000)
    cs.append(s)
subprocess.run(sys.argv[3].split(), check=True)
expect("others", get("/").status, 200)
EOF
	check_leftovers
}
vanish 10.99.0.77/24 "$V4"
vanish fd99::77/64 "$V6"
finish
