#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume
# A hundred thousand connections opened and closed, 10,000 a second where the host is fast enough: none fails.
. "$(dirname "$0")/../lib.sh"
[ "${SL_SANITIZED:-}" = 1 ] && count=10000 || count=100000

arena
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
listener v6 { address = "$V6" port = 8080 }
route "/" { respond { status = 200 body = "hello\n" } }
EOF

# One in three is closed by the gateway, which keeps it in TIME_WAIT; the client's kernel soon takes its port again.
short() {
	cl timeout 100 "$BUILD/tests/netns/short" "$1" 8080 "$2" 10000 >"$D/short" 2>&1
	local status=$?
	cat "$D/short"
	echo "    $NAME: $1: $(tail -n 1 "$D/short")" >&3
	return $status
}
exec 3>&1
check "$count connections, IPv4" short "$V4" "$count"
check "$((count / 4)) connections, IPv6" short "$V6" $((count / 4))
check "all of them were accepted" [ "$(stat_sum tcp.accepted)" -ge $((count + count / 4)) ]
finish
