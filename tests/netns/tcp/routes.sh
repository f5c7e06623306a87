#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Requests arrive by one router, and the host's route for replies leads to another: direct server return.
#
#   far client F - router L -> gateway -> router R - F        L has no way back
. "$(dirname "$0")/../lib.sh"

arena
R=slr$$ L=sll$$ F=slf$$
spaces+=("$R" "$L" "$F")
# A client at 10.99.0.2 beside the routers.
ip -n "$C" link add near type bridge
ip -n "$C" link add far type bridge
ip -n "$C" link set "$CIF" master near
ip -n "$C" addr flush dev "$CIF"
ip -n "$C" addr add 10.99.0.2/24 dev near
ip -n "$C" link set near up
ip -n "$C" link set far up
# port NAMESPACE NAME BRIDGE HOST NETWORK...
port() {
	ip link add "$2" netns "$1" type veth peer name "$2$1" netns "$C"
	ip -n "$C" link set "$2$1" master "$3" up
	ip -n "$1" addr add "10.$5.0.$4/24" dev "$2"
	ip -n "$1" addr add "fd$5::$4/64" dev "$2" nodad
	ip -n "$1" link set "$2" up
}
for n in "$R" "$L" "$F"; do ip netns add "$n"; done
for n in "$R" "$L"; do nsenter --net="/run/netns/$n" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; done
port "$R" near0 near 254 99
port "$R" far0 far 254 98
port "$L" near0 near 253 99
port "$L" far0 far 253 98
port "$F" far0 far 2 98
ip -n "$F" route add default via 10.98.0.253
ip -n "$F" route add default via fd98::253
ip -n "$G" route add default via 10.99.0.254
ip -n "$G" route add default via fd99::254
ip -n "$L" route add blackhole 10.98.0.2/32
ip -n "$L" route add blackhole fd98::2/128
far() { nsenter --net="/run/netns/$F" "$@"; }

backend echo echo
gateway <<EOC
interface $GIF { }
listener l { port = 8080 protocols = {http, datagram} }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/" { pool = echo datagram_service = 1 }
EOC
head -c 2000000 /dev/urandom >"$D/body"
upload() { far curl -sS --max-time 30 --data-binary "@$D/body" "http://$1:8080/" | cmp - "$D/body"; }
datagram() { [ "$(echo hello | far timeout 20 python3 "$here/datagram_client.py" "$1" 8080 1)" = hello ]; }
near() { [ "$(cl curl -sS --max-time 20 --data-binary near "http://$V4:8080/")" = near ]; }
check "IPv4: replies go by the route" upload "$V4"
check "IPv6: replies go by the route" upload "[$V6]"
check "IPv4: a datagram's reply goes by the route" datagram "$V4"
check "IPv6: a datagram's reply goes by the route" datagram "$V6"
check "a client on the link is answered" near

# Router R gets another MAC, and the kernel's neighbours follow: so do living connections.
mkfifo "$D/fifo"
cat >"$D/keep.py" <<'EOF'
import http.client, sys
c = http.client.HTTPConnection(sys.argv[1], 8080, timeout=20)
for line in sys.stdin:
    c.request("POST", "/", line)
    print(c.getresponse().read().decode(), end="", flush=True)
EOF
far timeout 60 python3 "$D/keep.py" "$V4" <"$D/fifo" >"$D/kept" 2>"$D/keep.log" &
exec 7>"$D/fifo"
echo first >&7
check "a connection is open" within 20 grep -q first "$D/kept"
ip -n "$R" link set near0 address 02:00:00:00:00:42
gw ip neigh replace 10.99.0.254 lladdr 02:00:00:00:00:42 dev "$GIF" nud reachable
echo second >&7
check "a living connection follows the router's new MAC" within 20 grep -q second "$D/kept"
gw ip neigh replace fd99::254 lladdr 02:00:00:00:00:42 dev "$GIF" nud reachable
check "IPv4: so do replies to datagrams" datagram "$V4"
check "IPv6: so do replies to datagrams" datagram "$V6"
exec 7>&-

# Policy routing: replies from the second address go by L, whose blackhole swallows them.
ip -n "$G" addr add 10.99.0.9/24 dev "$GIF"
check "another address is served" within 20 upload 10.99.0.9
ip -n "$G" route add default via 10.99.0.253 table 99
ip -n "$G" rule add from 10.99.0.9 lookup 99
swallowed() { ! far curl -sS --max-time 1 --data-binary x http://10.99.0.9:8080/; }
check "a rule on the source address decides" within 20 swallowed
ip -n "$G" rule del from 10.99.0.9 lookup 99

python3 - "$GIF" >"$D/flood" <<'EOF'
import sys
for i in range(4000):
    print(f"neigh replace 10.99.0.{10 + i % 200} lladdr 02:00:00:00:{i % 256:02x}:{i // 256:02x} dev {sys.argv[1]} nud stale")
EOF
gw ip -batch "$D/flood"
check "serves after a flood of neighbour changes" upload "$V4"
python3 -c 'for i in range(20000): print(f"route add 172.{16 + i // 65536}.{i // 256 % 256}.{i % 256}/32 dev lo table 77")' >"$D/routes"
gw ip -batch "$D/routes"
check "the log tells of too many routes" within 20 grep -q "more than 16384 routes" "$D/gw.log"
check "a client on the link is answered without routes" near
finish
