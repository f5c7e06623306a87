#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume
# A gigabyte in each direction comes back byte for byte, over IPv4 and IPv6, from the kernel's TCP and to it.
. "$(dirname "$0")/../lib.sh"
[ "${SL_SANITIZED:-}" = 1 ] && mib=64 || mib=1024

arena
backend echo echo
backend parts echo --streams 96
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
listener v6 { address = "$V6" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
pool parts { batch { max_latency = 10s } backend a { endpoint = "shm://$D/parts.sock" } }
route "/echo" { pool = echo }
route "/parts" { pool = parts }
EOF

bulk() {
	cl timeout 100 "$BUILD/tests/netns/bulk" "$1" 8080 "$2" "$3" "$4" >"$D/bulk" 2>&1
	local status=$?
	cat "$D/bulk"
	echo "    $NAME: $1, $4 connections, bodies of $3 KiB: $(tail -n 1 "$D/bulk")" >&3
	return $status
}
exec 3>&1
check "$mib MiB each way in bodies of 64 KiB, IPv4" bulk "$V4" "$mib" 64 8
check "$mib MiB each way in bodies of 64 KiB, IPv6" bulk "$V6" "$mib" 64 8
check "$((mib / 16)) MiB each way in bodies of 8 MiB, IPv4" bulk "$V4" $((mib / 16)) 8192 2
check "$((mib / 16)) MiB each way in bodies of 8 MiB, IPv6" bulk "$V6" $((mib / 16)) 8192 2

# More than the send buffer holds, in chunks.
in_parts() {
	local i
	head -c 65536 /dev/urandom >"$D/part"
	for ((i = 0; i < 96; i++)); do cat "$D/part"; done >"$D/parts"
	cl curl -sS -g -f --max-time 60 -o "$D/reply" --data-binary "@$D/part" "http://$1:8080/parts" &&
		cmp "$D/parts" "$D/reply"
}
check "6 MiB in chunks, IPv4" in_parts "$V4"
check "6 MiB in chunks, IPv6" in_parts "[$V6]"
check "no connection timed out" [ "$(stat_sum tcp.timeouts)" -eq 0 ]
finish
