#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# netns.sh: the namespaces of the demo, of netns tests and of benches, and the wires between them. An interface has its
# namespace's name, unless both of a wire are given others. `sluice demo` has this script built in.
#
#   make GATEWAY CLIENT [QUEUES [NAME NAME]]  two namespaces joined by veth: 10.99.0.1 and fd99::1, 10.99.0.2 and fd99::2
#   wire GATEWAY CLIENT [QUEUES [NAME NAME]]  another veth for them: nothing of the one before is left in it
#   behind CLIENT FAR                         FAR, 10.98.0.2 and fd98::2, sits behind the client, which routes
#   receive NAMESPACE PROCESSORS              what reaches it is received on these (a mask in hexadecimal), as a device of its
#                                             own would have it done; 0: as veth does it, on the processor of whoever sends
#   end NAMESPACE...                          ends what runs in them and removes them, as far as they are there
#
# A veth stays as it is: offloads on, so that local senders leave checksums to the device, and send large segments.
set -eu

# NAMESPACE INTERFACE NETWORK HOST
address() {
	ip -n "$1" addr add "10.$3.0.$4/24" dev "$2"
	ip -n "$1" addr add "fd$3::$4/64" dev "$2" nodad
	ip -n "$1" link set "$2" up
}

wire() {
	local gateway=$1 client=$2 queues=${3:-1} left=${4:-$1} right=${5:-$2}
	ip -n "$gateway" link del "$left" 2>/dev/null || true
	ip link add "$left" netns "$gateway" numrxqueues "$queues" numtxqueues "$queues" type veth \
		peer name "$right" netns "$client" numrxqueues "$queues" numtxqueues "$queues"
	address "$gateway" "$left" 99 1
	address "$client" "$right" 99 2
}

make() {
	local ns
	for ns in "$1" "$2"; do
		ip netns add "$ns"
		ip -n "$ns" link set lo up
	done
	wire "$@"
	nsenter --net="/run/netns/$2" sysctl -qw net.ipv4.ip_local_port_range="1024 65000" net.ipv4.tcp_tw_reuse=1
}

behind() {
	local client=$1 far=$2
	ip netns add "$far"
	ip link add "${far}c" netns "$client" type veth peer name "$far" netns "$far"
	address "$client" "${far}c" 98 1
	address "$far" "$far" 98 2
	nsenter --net="/run/netns/$client" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	ip -n "$far" route add default via 10.98.0.1
	ip -n "$far" route add default via fd98::1
}

# Its own /sys has the interface.
receive() {
	ip netns exec "$1" sh -c "for q in /sys/class/net/$1/queues/rx-*; do echo $2 >\$q/rps_cpus; done"
}

end() {
	local ns pid
	for ns; do
		[ -e "/run/netns/$ns" ] || continue
		for pid in $(ip netns pids "$ns"); do kill -KILL "$pid" 2>/dev/null || true; done
		ip netns del "$ns"
	done
}

case ${1:-} in
make | wire | behind | receive | end) "$@" ;;
*)
	sed -n 's/^#   /arena.sh /p' "$0" >&2
	exit 2
	;;
esac
