#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Access to the listeners of an interface: prefixes of clients, from the file and at run time, and VLANs.
. "$(dirname "$0")/../lib.sh"

arena
ip -n "$C" addr add 10.99.0.3/24 dev "$CIF"
config() { # config INTERFACE-KEYS
	gateway_config <<EOC
interface $GIF { $1 }
listener any { port = 8080 }
route "/" { respond { status = 200 body = "hello\n" } }
EOC
}
get() { cl curl -sS --max-time "${2:-10}" --interface "$1" "http://${3:-$V4}:8080/"; }
served() { [ "$(get "$@")" = hello ]; }
# Dropped, not refused: nothing comes back.
dropped() {
	local before
	before=$(denied)
	get "$1" 1 "${2:-$V4}"
	[ $? -eq 28 ] && [ "$(denied)" -gt "$before" ]
}
denied() { metric "sluice_rx_packets_total{interface=\"$GIF\",verdict=\"denied\"}"; }
other_vlan() { metric "sluice_rx_packets_total{interface=\"$GIF\",verdict=\"pass_vlan\"}"; }
reload() { gw "$SLUICE" reload >"$D/said" && cat "$D/said" && within 30 eval '[ "$(grep -c "reload: in force" "$D/gw.log")" -eq '"$1"' ]'; }
set_edge() { gw "$SLUICE" set --interface "$GIF" "$@"; }

config 'deny = {10.99.0.3}'
gateway_start
check "a client" served 10.99.0.2
check "one that the file denies" dropped 10.99.0.3
check "has the kernel as before" cl ping -c 1 -W 2 -I 10.99.0.3 "$V4"
check "bpftool reads the prefixes" eval 'bpftool map dump pinned "/sys/fs/bpf/sluice/$GIF/sl_prefix4" | grep -q "\"action\": 2"'

check "deny while it runs" eval 'set_edge deny=10.99.0.0/28 deny=fd99::/64 | grep -q "\"prefix\":\"10.99.0.0/28\",\"action\":\"deny\",\"by\":\"operator\""'
check "a client" dropped 10.99.0.2
check "one of IPv6" dropped fd99::2 "[$V6]"
check "the longest prefix decides" eval 'set_edge allow=10.99.0.2 && served 10.99.0.2'
check "the gateway's own rules are shown" eval 'set_edge | tee "$D/said" | grep -q "\"prefix\":\"10.99.0.3/32\",\"action\":\"deny\",\"by\":\"file\""'
check "nonsense is one line" eval '! set_edge deny=10.99.0.1/8 2>"$D/said"; cat "$D/said"; [ "$(wc -l <"$D/said")" -eq 1 ] && grep -q "found deny = \"10.99.0.1/8\"; allowed: a prefix" "$D/said"'
check "another interface is one line" eval '! gw "$SLUICE" set --interface no0 deny=10.0.0.0/8 2>"$D/said"; [ "$(wc -l <"$D/said")" -eq 1 ] && grep -q "found interface \"no0\"" "$D/said"'
check "remove, and forget, its former name" eval 'set_edge remove=10.99.0.0/28 remove=fd99::/64 forget=10.99.0.2 && served 10.99.0.2 && served fd99::2 10 "[$V6]"'

# A connection that exists is cut off too, and goes on when the rule is gone.
: >"$D/kept"
cl timeout 200 python3 - "$D/step" >"$D/kept" 2>&1 <<'EOF' &
import os, socket, sys, time
s = socket.create_connection(("10.99.0.1", 8080), 10)
def ask(limit):
    s.settimeout(limit)
    s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    return s.recv(1000)[:12]
print(ask(10).decode(), flush=True)
while not os.path.exists(sys.argv[1] + "1"): time.sleep(0.05)
try:
    print(ask(1).decode(), flush=True)
except TimeoutError:
    print("silence", flush=True)
while not os.path.exists(sys.argv[1] + "2"): time.sleep(0.05)
s.settimeout(60)
print(s.recv(1000)[:12].decode(), flush=True)
EOF
kept=$!
within 30 grep -q 200 "$D/kept"
set_edge deny=10.99.0.2 >/dev/null
touch "$D/step1"
within 30 grep -q silence "$D/kept"
set_edge remove=10.99.0.2 >/dev/null
touch "$D/step2"
check "a connection is held back while it is denied" eval 'wait $kept; cat "$D/kept"; [ "$(tr "\n" " " <"$D/kept")" = "HTTP/1.1 200 silence HTTP/1.1 200 " ]'

set_edge deny=192.0.2.0/24 >/dev/null
config 'allow = {10.99.0.3}'
check "reload" reload 1
check "only who is allowed" served 10.99.0.3
check "nobody else" dropped 10.99.0.2
check "of no family" dropped fd99::2 "[$V6]"
check "what the operator said stays" eval 'set_edge | grep -q "192.0.2.0/24.,.action.:.deny.,.by.:.operator"'
config ''
check "reload" reload 2
check "all again" eval 'served 10.99.0.2 && served fd99::2 10 "[$V6]"'

# asks WANT TAG...: what comes back for a SYN with these tags
asks() {
	local want=$1 got
	shift
	got=$(cl python3 "$here/xdp/vlan_syn.py" "$CIF" "$(ip -n "$G" -o link show dev "$GIF" | grep -o 'ether [^ ]*' | cut -d' ' -f2)" "$@")
	echo "found $got, expected $want"
	[ "$got" = "$want" ]
}
check "by default what is tagged is the kernel's" eval 'asks silence 100 && asks untagged && [ "$(other_vlan)" -eq 1 ]'
check "VLAN 0 is a priority only" asks 0 0
config 'vlan = 100'
check "reload" reload 3
check "that VLAN is served" asks 100 100
check "no other, also not by kernel sockets" eval 'asks silence 101; asks silence 100 100; get 10.99.0.2 5; [[ $? =~ ^(7|56)$ ]]'
config 'vlan = any'
check "reload" reload 4
check "any" eval 'asks 101 101 && asks untagged && served 10.99.0.2'
finish
