#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rounds.sh ADDRESS SYSTEM...: `kv` and the gRPC server at ADDRESS, and load on each SYSTEM in turns: shm, tcp, rc (RDMA with a
# queue pair each), ud (virtual connections), grpc. Prints lines `SYSTEM CONNECTIONS OPERATIONS/S MEDIAN P99` and
# `SYSTEM spike MEDIAN MAXIMUM` (first replies of 32 clients that join 8), times in microseconds.
#   ROUNDS, SECONDS_EACH, CONNECTIONS   see run.sh      LIMIT   no round begins after so many seconds [3600]
#   REMOTE   a command that runs another on the server's host, such as "ssh server"; $BUILD is there, too
set -eu
ulimit -n "$(ulimit -Hn)" # a client over RDMA has many descriptors
address=$1
shift
D=$(mktemp -d)
trap 'exec 7>&-; wait; rm -rf "$D"' EXIT
server='' load=()
[ -n "${REMOTE:-}" ] || [ "$(nproc)" -lt 2 ] || { server='taskset -c 0'; load=(taskset -c 1); }
key=$(head -c 32 /dev/urandom | base64)
(umask 077 && echo "$key" >"$D/key")

endpoint() {
	case $1 in
	shm) echo "shm://$D/kv.sock" ;;
	tcp) echo "tcp://$address:7479" ;;
	rc) echo "rdma://$address:7471" ;;
	ud) echo "rdma+ud://$address:7471" ;;
	esac
}
listen=
for system; do [ "$system" = grpc ] || listen+=,$(endpoint "$system"); done
# The servers end with this script's end of the pipe.
# shellcheck disable=SC2086  # words
exec 7> >(${REMOTE:-} sh -s >"$D/served" 2>&1)
cat >&7 <<SERVE
umask 077
key=\$(mktemp) && echo '$key' >\$key
$server $BUILD/kv --listen ${listen#,} --key-file \$key 7>&- & kv=\$!
$server $BUILD/bench/kv/grpc serve $address:7480 7>&- & grpc=\$!
cat >/dev/null
kill \$kv \$grpc
rm \$key
SERVE
for ((i = 0; i < 300; i++)); do
	[ "$(grep -c serving "$D/served")" -lt 2 ] || break
	sleep 0.1
done
[ "$i" -lt 300 ] || { cat "$D/served" >&2; exit 1; }

call() { # SYSTEM CONNECTIONS
	if [ "$1" = grpc ]; then
		"${load[@]}" "$BUILD/bench/kv/grpc" call "$address:7480" "$2" "$SECONDS_EACH"
	else
		"${load[@]}" "$BUILD/bench/kv/call" "$(endpoint "$1")" "$D/key" "$2" "$SECONDS_EACH"
	fi
}
spike() { # SYSTEM
	if [ "$1" = grpc ]; then
		"${load[@]}" "$BUILD/bench/kv/grpc" spike "$address:7480" 8 32
	else
		"${load[@]}" "$BUILD/bench/kv/call" --spike "$(endpoint "$1")" "$D/key" 8 32
	fi
}
for ((round = 0; round < ROUNDS && SECONDS < ${LIMIT:-3600}; round++)); do
	for count in $CONNECTIONS; do
		for system; do
			figures=$(call "$system" "$count") || { echo "rounds.sh: $system fails with $count clients" >&2; continue; }
			echo "$system $count $figures"
		done
	done
	for system; do
		figures=$(spike "$system") || { echo "rounds.sh: $system fails when clients join" >&2; continue; }
		echo "$system spike $figures"
	done
done
