#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A link goes down while a reply is in its ring, and the client continues by another one, as by a bond: the reply is repeated.
. "$(dirname "$0")/../lib.sh"

arena
# The second link has the first one's address, and a bridge at the client's end chooses.
ip -n "$C" link add near type bridge
ip -n "$C" link set "$CIF" master near
ip -n "$C" addr flush dev "$CIF"
ip -n "$C" addr add 10.99.0.2/24 dev near
ip -n "$C" link set near up
MAC=$(ip -n "$G" -j link show "$GIF" | sed -E 's/.*"address":"([^"]*)".*/\1/')
ip link add second netns "$G" address "$MAC" type veth peer name two netns "$C"
ip -n "$G" link set second up

backend echo echo
gateway <<EOC
interface $GIF { }
interface second { }
listener l { port = 8080 }
pool echo { batch { max_latency = 60s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/" { pool = echo }
EOC
# On one connection: "first", and when the links have changed, "later", which makes replies take the other link.
cat >"$D/keep.py" <<'EOF'
import os, socket, sys, time
address, folder = sys.argv[1:]
s = socket.create_connection((address, 8080), timeout=25)
def ask(text):
    s.sendall(f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
def until(path, then):
    while not os.path.exists(folder + "/" + path):
        time.sleep(0.02)
    open(folder + "/" + then, "w").close()
ask("opened")
got = s.recv(4096)
open(folder + "/opened", "w").close()
until("stopped", "asked")
ask("first")
until("changed", "continued")
ask("later")
while b"later" not in got:
    part = s.recv(4096)
    if not part:
        sys.exit("closed")
    got += part
sys.exit(not got.index(b"opened") < got.index(b"first"))
EOF
# The client repeats nothing, as its request is acknowledged.
acknowledged() { cl ss -Htn state established dst "$V4" | tee "$D/said" | awk '$2 { busy = 1 } END { exit busy || !NR }'; }
sends() { [ "$(stat_sum tcp.segs_out)" -gt "$sent" ]; }
repeats() {
	local keep
	cl ip neigh replace "$V4" lladdr "$MAC" dev near nud permanent
	cl timeout 60 python3 "$D/keep.py" "$V4" "$D" &
	keep=$!
	within 20 test -e "$D/opened" || return 1
	kill -STOP "${pid_of[echo]}"
	touch "$D/stopped"
	within 20 test -e "$D/asked" || return 1
	within 20 acknowledged || return 1
	ip -n "$G" link set "$GIF" down
	sent=$(stat_sum tcp.segs_out)
	kill -CONT "${pid_of[echo]}"
	within 20 sends || return 1
	ip -n "$C" link set two master near up
	touch "$D/changed"
	wait "$keep"
}
check "a reply in the ring of a link that is down is repeated by another" repeats
finish
