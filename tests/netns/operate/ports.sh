#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Served ports are reserved in the kernel, and follow reloads.
. "$(dirname "$0")/../lib.sh"

arena
config() { # LISTENERS
	gateway_config <<EOC
interface $GIF {}
$1
route "/" { respond { body = "hello\n" } }
EOC
}
reload() { gw "$SLUICE" reload -c "$D/gw.conf"; }
# can_bind FAMILY PROTOCOL ADDRESS PORT: as a second server does
can_bind() {
	gw python3 -c '
import socket, sys
family = socket.AF_INET6 if sys.argv[1] == "6" else socket.AF_INET
s = socket.socket(family, socket.SOCK_STREAM if sys.argv[2] == "tcp" else socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if sys.argv[1] == "6":
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
s.bind((sys.argv[3], int(sys.argv[4])))
if sys.argv[2] == "tcp":
    s.listen()' "$@"
}
in_use() { ! can_bind "$@" 2>"$D/said" && grep -q "Address already in use" "$D/said"; }
served() { cl curl -sS --max-time 10 "http://$V4:$1/" | grep -q hello; }

config 'listener any { port = 8080 protocols = {http, datagram} }'
gateway_start
for place in "4 tcp 0.0.0.0" "4 tcp $V4" "4 udp $V4" "6 tcp ::" "6 tcp $V6" "6 udp $V6"; do
	read -r family protocol address <<<"$place"
	check "port 8080 of $address ($protocol) is in use" in_use "$family" "$protocol" "$address" 8080
done
check "ss lists UDP" eval 'gw ss -Huan "sport = :8080" | grep -q "\[::\]:8080"'

# The kernel chooses among ten ports for the host's own connections. Ten of them need the served one.
gw sysctl -qw net.ipv4.ip_local_port_range="8076 8085"
timeout 60 ip netns exec "$C" python3 -c '
import socket
s = socket.create_server(("10.99.0.2", 9000), backlog=64)
kept = []
while True:
    kept.append(s.accept())' &
server=$!
within 10 eval 'cl ss -Htln | grep -q :9000'
check "no outgoing connection gets the port" gw timeout 20 python3 -c '
import socket
kept, ports = [], set()
for _ in range(9):
    kept.append(socket.create_connection(("10.99.0.2", 9000), 5))
    ports.add(kept[-1].getsockname()[1])
assert len(ports) == 9 and 8080 not in ports, ports
try:
    socket.create_connection(("10.99.0.2", 9000), 5)
    raise SystemExit("a tenth port was free")
except OSError as e:
    print(e)'
kill "$server"
gw sysctl -qw net.ipv4.ip_local_port_range="32768 60999"

# --- reload, by an account without the right to bind low ports itself ---

config 'listener any { port = 8080 protocols = {http, datagram} } listener low { address = "10.99.0.1" port = 81 }'
check "a reload that adds a port below 1024" reload
check "it is served" within 10 served 81
check "it is in use" in_use 4 tcp "$V4" 81
check "another address of it is free" can_bind 4 tcp 127.0.0.1 81
# From an address to "*", and back.
config 'listener any { port = 8080 } listener low { port = 81 }'
check "a reload from an address to *" reload
check "the port is in use for all addresses" within 10 in_use 4 tcp 127.0.0.1 81
check "its datagrams are not" within 10 can_bind 4 udp 0.0.0.0 8080
config "listener any { port = 8080 } listener low { address = \"$V4\" port = 81 }"
check "a reload from * to an address" reload
check "the address is in use" within 10 in_use 4 tcp "$V4" 81
check "others are free" within 10 can_bind 4 tcp 127.0.0.1 81
config 'listener any { port = 8080 }'
check "a reload that removes the port" reload
check "it is free" within 10 can_bind 4 tcp "$V4" 81

# --- a port that another program has ---

gw timeout 300 python3 -c '
import socket, time
s = socket.create_server(("10.99.0.1", 9081))
time.sleep(300)' &
server=$!
within 10 eval 'gw ss -Htln | grep -q :9081'
config 'listener any { port = 8080 } listener other { port = 9081 }'
check "a reload with it is refused" eval '! reload >"$D/said" 2>&1 && grep -q "gw.conf:2: found TCP port 9081 of 0.0.0.0, which another program uses; allowed: " "$D/said"'
check "the gateway serves on" served 8080
gateway_end
check "a start with it is refused" eval '! gw timeout 20 "$SLUICE" run -c "$D/gw.conf" >"$D/said" 2>&1 && grep -q "gw.conf:2: found TCP port 9081" "$D/said"'
kill "$server"
finish
