#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume: first
# Memory: a thousand streams whose client has stopped reading while the other end says what it can, and a thousand whose server
# has stopped reading; by HTTP/1.1, by HTTP/2 and of gRPC, to a backend of the SDK; streams/slow-servers has those through an
# agent. Each process has less than 64 KiB for each, frames counted, and others are served as before.
. "$(dirname "$0")/../lib.sh"

arena
export ADMIN=/run/sluice/$GIF.sock
# Buffers of the kernel between agent and server do not count; they hold more than a stream may pass before it is trusted.
gw sysctl -qw net.ipv4.tcp_wmem="4096 131072 262144" net.ipv4.tcp_rmem="4096 131072 262144"
N=1000 most=65536
# A sanitizer keeps what was freed, and is slow.
[ "${SL_SANITIZED:-}" != 1 ] || N=200 most=$((2 << 20))
backend chat chat
port=8000
# slow_ends sdk | agent. Each case has a gateway and a backend of its own, whose memory has not grown for another reason.
slow_ends() {
	local where=$1 slow protocol name way kind
	for slow in client server; do
		for protocol in h1 h2 grpc; do
			name=$where-$slow-$protocol
			[ $slow = client ] && way=flood || way=deaf
			if [ "$where" = agent ]; then
				[ $protocol = h1 ] && kind=http || kind=h2c
				port=$((port + 1))
				rm -f "$D/server.log"
				gw /usr/bin/python3 "$here/streams/slow_server.py" $kind-$way $port >"$D/server.log" 2>&1 &
				pid_of[server]=$!
				within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
				in_group nsenter --net="/run/netns/$G" "$SLUICE" agent --listen "shm://$D/$name.sock" --to $kind://127.0.0.1:$port \
					>"$D/$name.log" 2>&1 </dev/null &
				pid_of[$name]=$!
				within 30 test -S "$D/$name.sock" || say_failed "the agent does not start"
			elif [ $slow = client ]; then
				backend $name chat --repeat 100000000
			else
				python_backend $name backends/served_streams.py
			fi
			gateway <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool chat { backend a { endpoint = "shm://$D/chat.sock" } }
pool slow { batch { policy = direct } backend a { endpoint = "shm://$D/$name.sock" } }
route "/chat" { pool = chat stream = yes }
route "/slow" { pool = slow stream = yes strip_prefix = yes }
limits { max_connections = 4096 max_body = 64m send_timeout = 600s send_rate = 0 body_timeout = 600s body_rate = 0 }
memory { frames = 768m }
admin { address = "127.0.0.1" port = 9900 }
CONFIG
			check "$name: a stream costs less than 64 KiB, and others are served" cl timeout 200 \
				python3 "$here/streams/slow_streams.py" "slow/$way" "$protocol" "$slow" "$N" "$most" \
				gateway="$(gateway_child)" "$where=${pid_of[$name]}"
			[ -z "${SL_VERBOSE:-}" ] || cat "$D/out"
			check "$name: none was refused anything" eval '[ "$(metric sluice_address_limits_total)" = 0 ]'
			gateway_end
			kill_backend "$name"
			[ "$where" = sdk ] || kill_backend server
		done
	done
}

[ "$NAME" = streams/slow-ends ] || return 0
slow_ends sdk
finish
