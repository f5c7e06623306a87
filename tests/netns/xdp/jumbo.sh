#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# MTUs above the frames of AF_XDP: long TCP segments arrive in several frames, in native and in generic mode.
. "$(dirname "$0")/../lib.sh"

arena
ip -n "$C" link set "$CIF" mtu 9000
ip -n "$G" link set "$GIF" mtu 9000
ip -n "$C" addr replace fd99::2/64 dev "$CIF" nodad
ip -n "$G" addr replace "$V6/64" dev "$GIF" nodad
backend a echo
head -c 3000000 /dev/urandom >"$D/body"

echoes() { # URL
	cl curl -sS --max-time 60 --data-binary "@$D/body" -o "$D/back" "$1/echo" && cmp "$D/body" "$D/back"
}
# The MSS that the gateway announced, as the client's kernel uses it: less 12 bytes of timestamps.
cat >"$D/mss.py" <<'EOF'
import socket, sys
s = socket.create_connection((sys.argv[1], 8080), timeout=20)
print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG))
EOF
mss() { [ "$(cl python3 "$D/mss.py" "$1" | tee "$D/mss")" -eq "$2" ]; }
dropped() { metric sluice_port_rx_dropped_total; }
# Datagrams of 8,000 bytes.
cat >"$D/datagram.py" <<'EOF'
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(10):
    s.sendto(bytes(8000), (sys.argv[1], 8080))
EOF

for mode in native generic; do
	gateway <<EOF
interface $GIF { mode = $mode }
listener any { port = 8080 protocols = {http, datagram} }
pool echo { backend a { endpoint = "shm://$D/a.sock" } batch { max_latency = 10s } }
route "/echo" { pool = echo datagram_service = 1 stream = no max_body = 4M }
EOF
	check "$mode: ready" within 20 eval 'admin /readyz | grep -q ^ready'
	check "$mode: announces an MSS by the MTU" mss "$V4" 8948
	check "$mode: the same over IPv6" mss "$V6" 8928
	check "$mode: an upload and its reply are whole" echoes "http://$V4:8080"
	check "$mode: and over IPv6" echoes "http://[$V6]:8080"
	check "$mode: no frame is dropped" [ "$(dropped)" -eq 0 ]
	check "$mode: no checksum fails" [ "$(metric 'sluice_drops_total{worker="0",reason="tcp_checksum"}')" -eq 0 ]
	# Without offload each segment has a whole checksum, and no packet exceeds the MTU.
	cl ethtool -K "$CIF" tx off tso off gso off >"$D/ethtool" 2>&1
	check "$mode: segments with a whole checksum" echoes "http://$V4:8080"
	check "$mode: and over IPv6, too" echoes "http://[$V6]:8080"
	check "$mode: none of these is dropped" [ "$(dropped)" -eq 0 ]
	cl ethtool -K "$CIF" tx on tso on gso on >"$D/ethtool" 2>&1
	cl python3 "$D/datagram.py" "$V4"
	check "$mode: datagrams above a frame are dropped and counted" within 20 eval '[ "$(dropped)" -ge 10 ]'
	check "$mode: and what follows is served" echoes "http://$V4:8080"
	gateway_end
done
SAID='up to 9000 arrive in several frames'
said() { "$@" | tee "$D/said" | grep -q "$SAID"; }
check "doctor says what the MTU means" said gw "$SLUICE" doctor "$GIF"
finish
