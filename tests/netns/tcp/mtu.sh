#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Small MTUs: 576 for IPv4 and 1280, the minimum of IPv6. First in the middle of the path, where ICMP errors must be
# obeyed. Then only at the client, whose MSS option must be obeyed, then at both ends.
. "$(dirname "$0")/../lib.sh"
R=slr$$
spaces+=("$R")
[ "${SL_SANITIZED:-}" = 1 ] && mib=4 count=1000 || mib=16 count=3000

# R sits behind C, which routes. Both ends have 1500; what goes to R may have 576 over IPv4 and 1300 over IPv6.
arena
"$ARENA" behind "$C" "$R" || exit 1
ip -n "$C" route replace 10.98.0.2/32 dev "${R}c" mtu lock 576
ip -n "$C" route replace fd98::2/128 dev "${R}c" mtu lock 1300
backend echo echo
gateway_config <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
listener v6 { address = "$V6" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
route "/" { respond { status = 200 body = "hello\n" } }
EOF

# Between watch and watched: the length of the largest IP packet that comes to that end, into $D/largest.
watch() { # NAMESPACE DEVICE
	cat >"$D/watch.py" <<'EOF'
import os, socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
s.bind((sys.argv[1], 0))
s.settimeout(0.1)
open(sys.argv[2] + "/watching", "w").close()
largest = 0
while not os.path.exists(sys.argv[2] + "/enough"):
    try:
        length, _, _, at = s.recvmsg_into([bytearray(64)], 0, socket.MSG_TRUNC)
    except TimeoutError:
        continue
    if at[2] != socket.PACKET_OUTGOING:
        largest = max(largest, length - 14)
print(largest)
EOF
	rm -f "$D/enough" "$D/watching"
	nsenter --net="/run/netns/$1" timeout 60 python3 "$D/watch.py" "$2" "$D" >"$D/largest" &
	pid_of[watch]=$!
	within 30 test -e "$D/watching"
}
watched() {
	touch "$D/enough"
	wait "${pid_of[watch]}"
	unset "pid_of[watch]"
}
# exchange ADDRESS MTU [NAMESPACE DEVICE]: byte-exact transfers and short connections in packets of at most that size,
# and not far below.
exchange() {
	local packet ns=${3:-$C}
	watch "$ns" "${4:-$CIF}"
	nsenter --net="/run/netns/$ns" timeout 60 "$BUILD/tests/netns/bulk" "$1" 8080 "$mib" 256 4 &&
		nsenter --net="/run/netns/$ns" timeout 60 "$BUILD/tests/netns/short" "$1" 8080 "$count" 10000 || return 1
	watched
	packet=$(cat "$D/largest")
	echo "largest packet $packet"
	[ "$packet" -eq "$2" ]
}
mtu() {
	ip -n "$C" link set "$CIF" mtu "$1" && { [ "$2" = client ] || ip -n "$G" link set "$GIF" mtu "$1"; }
}
again() {
	ip -n "$C" addr replace fd99::2/64 dev "$CIF" nodad
	ip -n "$G" addr replace fd99::1/64 dev "$GIF" nodad
}

gateway_start
check "IPv4, MTU 1500" exchange "$V4" 1500
check "IPv6, MTU 1500" exchange "$V6" 1500
check "IPv4, 576 on the way" exchange "$V4" 576 "$R" "$R"
check "IPv6, 1300 on the way" exchange "$V6" 1300 "$R" "$R"
mtu 1280 client
check "IPv6, MTU 1280 at the client" exchange "$V6" 1280
mtu 576 client
check "IPv4, MTU 576 at the client" exchange "$V4" 576
mtu 1500 both
again

# The gateway follows its interface's MTU. The client sends short segments, and its MSS option allows long ones.
ip -n "$C" route replace "$V4/32" dev "$CIF" mtu lock 552 advmss 1460
ip -n "$C" route replace "$V6/128" dev "$CIF" mtu lock 1280 advmss 1440
lowered() { grep -q "interface $GIF: the MTU changed from $1 to $2" "$D/gw.log"; }
# living ADDRESS MTU BEFORE: the segments of a connection that is older than the change
cat >"$D/living.py" <<'EOF'
import os, socket, sys, time
s = socket.create_connection((sys.argv[1], 8080), 20)
body = bytes(100000)
def ask():
    s.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    data = b""
    while b"\r\n\r\n" not in data or len(data.split(b"\r\n\r\n", 1)[1]) < len(body):
        data += s.recv(1 << 20)
ask()
open(sys.argv[2] + "/asked", "w").close()
while not os.path.exists(sys.argv[2] + "/lowered"):
    time.sleep(0.02)
ask()
EOF
living() {
	rm -f "$D/asked" "$D/lowered"
	cl timeout 200 python3 "$D/living.py" "$1" "$D" &
	pid_of[living]=$!
	within 30 test -e "$D/asked"
	ip -n "$G" link set "$GIF" mtu "$2"
	within 20 lowered "$3" "$2" || return 1
	watch "$C" "$CIF"
	touch "$D/lowered"
	wait "${pid_of[living]}" || return 1
	unset "pid_of[living]"
	watched
	echo "largest packet $(cat "$D/largest")"
	[ "$(cat "$D/largest")" -eq "$2" ]
}
check "IPv6, MTU lowered to 1300 under a connection" living "$V6" 1300 1500
check "IPv6, a new connection at 1300" exchange "$V6" 1300
check "IPv4, MTU lowered to 576 under a connection" living "$V4" 576 1300
check "IPv4, a new connection at 576" exchange "$V4" 576
ip -n "$G" link set "$GIF" mtu 1500
check "the MTU is raised again" within 20 lowered 576 1500
check "IPv4, a new connection at 1500" exchange "$V4" 1500
finish
