#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Listeners without an address serve the host's own addresses only, also when these change.
. "$(dirname "$0")/../lib.sh"

arena
H=slh$$ # a host behind the gateway's host
spaces+=("$H")
ip netns add "$H"
ip -n "$G" link add hostg type veth peer name hoste netns "$H"
ip -n "$G" addr add 10.50.0.1/24 dev hostg
ip -n "$G" addr add fd50::1/64 dev hostg nodad
ip -n "$G" link set hostg up
ip -n "$H" addr add 10.50.0.2/24 dev hoste
ip -n "$H" addr add fd50::2/64 dev hoste nodad
ip -n "$H" link set hoste up
ip -n "$H" route add default via 10.50.0.1
ip -n "$H" -6 route add default via fd50::1
ip -n "$C" route add 10.50.0.0/24 via "$V4"
ip -n "$C" -6 route add fd50::/64 via "$V6"
gw sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
# A kernel server of the host behind, which answers each request with its name.
nsenter --net="/run/netns/$H" timeout 300 python3 -c '
import socketserver, socket
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(4096):
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nbehind\n")
class Server(socketserver.ThreadingTCPServer):
    address_family, allow_reuse_address, daemon_threads = socket.AF_INET6, True, True
Server(("::", 8080), Handler).serve_forever()' &
behind=$!

get() { cl curl -sS --max-time "${2:-10}" "http://$1:8080/"; }
answers() { [ "$(get "$1" "${3:-10}")" = "$2" ]; }
no_answer() { ! get "$1" 2; }
other_host() { metric "sluice_rx_packets_total{interface=\"$GIF\",verdict=\"pass_other_host\"}"; }

check "a server behind the host" within 10 answers 10.50.0.2 behind
gateway_config <<EOC
interface $GIF {}
listener any { port = 8080 }
route "/" { respond { body = "hello\n" } }
EOC
gateway_start
check "the host's address" answers "$V4" hello
check "the host's address, IPv6" answers "[$V6]" hello
check "its address on another interface" answers 10.50.0.1 hello
check "its address on another interface, IPv6" answers "[fd50::1]" hello
check "the host behind it" answers 10.50.0.2 behind
check "the host behind it, IPv6" answers "[fd50::2]" behind
check "bpftool lists the addresses" eval 'bpftool map dump pinned "/sys/fs/bpf/sluice/$GIF/sl_listeners" | tr -d " \n" | grep -q "\"addr\":\[10,99,0,1,"'

ip -n "$G" addr add 10.99.0.7/24 dev "$GIF"
check "an address that is added" within 10 answers 10.99.0.7 hello 2
ip -n "$G" addr add fd99::7/64 dev "$GIF" nodad
check "an address that is added, IPv6" within 10 answers "[fd99::7]" hello 2
ip -n "$G" addr del 10.99.0.7/24 dev "$GIF"
ip -n "$G" addr del fd99::7/64 dev "$GIF"
check "an address that is removed" within 10 no_answer 10.99.0.7
check "an address that is removed, IPv6" within 10 no_answer "[fd99::7]"
ip -n "$G" addr add 10.99.0.7/24 dev "$GIF"
check "an address that returns" within 10 answers 10.99.0.7 hello 2
for i in $(seq 100); do
	ip -n "$G" addr add "10.60.0.$i/32" dev "$GIF"
done
check "the last of 100 addresses" within 10 eval 'ip -n "$C" route replace 10.60.0.0/24 via "$V4" && answers 10.60.0.100 hello 2'

# Frames for another MAC stay with the kernel, which ignores them.
ip -n "$C" neigh replace 10.99.0.7 lladdr 02:03:04:05:06:07 dev "$CIF" nud permanent
before=$(other_host)
check "frames for another MAC are not answered" no_answer 10.99.0.7
check "and are counted" [ "$(other_host)" -gt "$before" ]
ip -n "$C" neigh del 10.99.0.7 dev "$CIF"
ip -n "$G" link set "$GIF" address 02:03:04:05:06:08
ip -n "$C" neigh flush dev "$CIF"
check "the interface's new MAC" within 10 answers 10.99.0.7 hello 2
gateway_end
kill "$behind"
finish
