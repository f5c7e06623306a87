#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How the program comes onto the interface, and that it goes again.
. "$(dirname "$0")/../lib.sh"

arena
config() {
	gateway_config <<EOF
interface $GIF { $1 }
listener v4 { address = "$V4" port = 8080 }
route "/" { respond { status = 200 body = "hello\n" } }
EOF
}
program() { ip -n "$G" -d link show "$GIF" | grep -oE 'prog/xdp(generic)? id [0-9]+|xdp(generic)?/id:[0-9]+' | head -n 1; }
has_program() { [ -n "$(program)" ]; }
no_program() { ! has_program; }
hello() { [ "$(cl curl -sS --max-time 10 "http://$V4:8080/")" = hello ]; }
no_pins() { ! find /sys/fs/bpf/sluice -path "*$GIF*" 2>/dev/null | grep -q .; }

config ""
gateway_start
check "attached by itself, natively" grep -q "^interface $GIF: native" "$D/gw.log"
check "serves" hello
check "maps are pinned under the interface's name" test -e "/sys/fs/bpf/sluice/$GIF/sl_rx_drops"
check "bpftool prints field names" eval "bpftool map dump pinned /sys/fs/bpf/sluice/$GIF/sl_svc_ctl | grep -q batch_size"
gateway_end
check "nothing is attached after the end" no_program
check "nothing is pinned after the end" no_pins

gateway_start
kill -KILL "$gateway_pid"
wait "$gateway_pid" 2>/dev/null
gateway_pid=
check "SIGKILL leaves no program" within 30 no_program
check "the interface is the kernel's again" cl ping -q -c 1 -W 2 "$V4"
gateway_start
check "starts again after SIGKILL" hello
check "with its pins replaced" test -e "/sys/fs/bpf/sluice/$GIF/sl_rx_drops"
second() { ! gw timeout 20 "$SLUICE" run -c "$D/gw.conf" >"$D/second" 2>&1 && [ "$(wc -l <"$D/second")" -eq 1 ] && cat "$D/second"; }
check "a second gateway is refused in one line" second
check "which does not disturb the first" hello
gateway_end

config "mode = generic"
gateway_start
check "mode = generic" grep -q "^interface $GIF: generic" "$D/gw.log"
check "serves in generic mode" hello
gateway_end
check "generic mode leaves nothing" no_program

config "mode = adopt"
refused() { ! gw timeout 20 "$SLUICE" run -c "$D/gw.conf" >"$D/refused" 2>&1 && grep -q 'gw.conf:1: .*adopt' "$D/refused"; }
check "mode = adopt without a program is refused" refused

# The object that `make install` puts into /usr/lib/bpf.
gw ip link set dev "$GIF" xdpdrv obj "$BUILD/sluice.bpf.o" sec xdp >"$D/out" 2>&1 || say_failed "ip link set xdpdrv"
before=$(program)
gateway_start
check "adopts what ip link attached" grep -q "^interface $GIF: .*adopted" "$D/gw.log"
check "serves through it" hello
gateway_end
check "and leaves it there" eval '[ -n "$before" ] && [ "$(program)" = "$before" ]'
check "what is left there passes everything on" cl ping -q -c 1 -W 2 "$V4"
gw ip link set dev "$GIF" xdp off

config ""
gw xdp-loader load -m native -s xdp "$GIF" "$BUILD/sluice.bpf.o" >"$D/out" 2>&1 || say_failed "xdp-loader load"
gateway_start
check "adopts what xdp-loader attached" grep -q "^interface $GIF: .*adopted" "$D/gw.log"
check "serves through that too" hello
gateway_end
check "and leaves that there" has_program
gw xdp-loader unload -a "$GIF" >/dev/null 2>&1
check "until xdp-loader takes it off" no_program
finish
