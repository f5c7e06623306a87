#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tags that a NIC strips off (rxvlan): the program reads them from the descriptor. The client's packets get theirs by tc,
# so veth has them beside the frame.
. "$(dirname "$0")/../lib.sh"

arena
config() { # config INTERFACE-KEYS
	gateway_config <<EOC
interface $GIF { $1 }
listener any { port = 8080 }
route "/" { respond { status = 200 body = "hello\n" } }
EOC
}
mac() { ip -n "$1" -o link show dev "$2" | grep -o 'ether [^ ]*' | cut -d' ' -f2; }
get() { cl curl -sS --max-time "${2:-10}" "http://$1:8080/"; }
served() { [ "$(get "$V4")" = hello ] && [ "$(get "[$V6]")" = hello ]; }
other_vlan() { metric "sluice_rx_packets_total{interface=\"$GIF\",verdict=\"pass_vlan\"}"; }
refused() {
	local before
	before=$(other_vlan)
	get "$V4" 1
	[ $? -ne 0 ] && [ "$(other_vlan)" -gt "$before" ]
}

clang -O2 -g -target bpf -I"/usr/include/$(uname -m)-linux-gnu" -c "$here/xdp/push_vlan.bpf.c" -o "$D/push.o"
for address in "$V4" "$V6"; do ip -n "$C" neigh replace "$address" lladdr "$(mac "$G" "$GIF")" dev "$CIF"; done
tc -n "$C" qdisc add dev "$CIF" clsact
tc -n "$C" filter add dev "$CIF" egress bpf direct-action object-file "$D/push.o" section push_tag
tc -n "$C" filter add dev "$CIF" ingress bpf direct-action object-file "$D/push.o" section pop_tag

config 'vlan = 100'
gateway_start
check "the program is bound to the NIC" eval 'gw "$SLUICE" status -c "$D/gw.conf" | tee "$D/said" | grep -q "native, single program, bound"'
check "the log has no warning of stripped tags" eval '! grep "strips VLAN" "$D/gw.log"'
check "serves the VLAN" served
head -c 300000 /dev/urandom >"$D/body"
check "and its uploads" [ "$(cl curl -sS --max-time 20 --data-binary "@$D/body" "http://$V4:8080/")" = hello ]
config 'vlan = 200'
check "reload" eval 'gw "$SLUICE" reload && within 20 grep -q "reload: in force" "$D/gw.log"'
check "leaves another VLAN to the kernel" refused
config 'vlan = any'
check "reload" eval 'gw "$SLUICE" reload && within 20 [ "$(grep -c "reload: in force" "$D/gw.log")" -eq 2 ]'
check "serves all" served
gateway_end

config ''
gateway_start
check "binds nothing without VLANs" eval '! gw "$SLUICE" status -c "$D/gw.conf" | grep "bound to the NIC"'
config 'vlan = 100'
check "a VLAN at run time" eval 'gw "$SLUICE" reload && within 20 grep -q "reload: in force" "$D/gw.log"'
check "is warned of" grep -q "interface $GIF: vlan = 100, but the interface strips" "$D/gw.log"
gateway_end
checked() { gw "$SLUICE" check -c "$D/gw.conf" | tee "$D/said"; }
check "check has no warning where the tags are read" eval '! checked | grep "strips VLAN"'
config 'vlan = 100 mode = generic'
check "check warns of generic mode" eval 'checked | grep -q "gw.conf:[0-9]*: warning: interface $GIF: vlan = 100, but the interface strips"'
finish
