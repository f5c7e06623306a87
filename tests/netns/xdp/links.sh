#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Interfaces that change under a running gateway: created again, program detached, queues added; and software interfaces.
. "$(dirname "$0")/../lib.sh"

arena 2
# veth refuses native mode if the other end has more queues.
cl ethtool -L "$CIF" rx 1 tx 1
gw ethtool -L "$GIF" rx 1 tx 1
gateway_config <<EOC
interface $GIF {}
listener any { port = 8080 }
route "/" { respond { status = 200 body = "hello\n" } }
EOC
hello() { [ "$(cl curl -sS --max-time 10 "http://$V4:8080/")" = hello ]; }
unready() { admin /readyz | tee "$D/said" | grep -q "$1"; }
gateway_start
check "serves" hello

# Connections before and behind the change; the client's side chooses among the queues by the flow's hash.
cat >"$D/keep.py" <<'EOF'
import http.client, os, sys, time
def ask(c):
    c.request("GET", "/")
    return c.getresponse().read() == b"hello\n"
connections = [http.client.HTTPConnection(sys.argv[1], 8080, timeout=20) for _ in range(16)]
assert all(map(ask, connections))
open(sys.argv[2] + "/open", "w").close()
while not os.path.exists(sys.argv[2] + "/added"):
    time.sleep(0.02)
assert all(map(ask, connections))
assert all(ask(http.client.HTTPConnection(sys.argv[1], 8080, timeout=20)) for _ in range(16))
EOF
cl timeout 200 python3 "$D/keep.py" "$V4" "$D" >"$D/keep.log" 2>&1 &
pid_of[keep]=$!
within 20 test -e "$D/open"
gw ethtool -L "$GIF" rx 2 tx 2
cl ethtool -L "$CIF" rx 2 tx 2
check "an added queue is served" within 20 grep -q "interface $GIF: queue 1 was added" "$D/gw.log"
check "and the gateway is ready" within 20 unready '^ready'
touch "$D/added"
kept() { wait "${pid_of[keep]}"; }
check "connections continue on both queues" kept
unset "pid_of[keep]"
queue_1() { admin /metrics | grep '^sluice_port_rx_packets_total.*queue="1"' | grep -vq ' 0$'; }
take_baseline
check "packets of the added queue arrive" queue_1
check "the kernel keeps a queue with a socket" eval '! gw ethtool -L "$GIF" rx 1 tx 1'
check "serves further" hello
gateway_end

cl ethtool -L "$CIF" rx 1 tx 1
gw ethtool -L "$GIF" rx 1 tx 1
cp "$D/gw.conf" "$D/gw.conf.all"
sed -i "s/^interface.*/interface $GIF { queues = {0} }/" "$D/gw.conf"
gateway_start
gw ethtool -L "$GIF" rx 2 tx 2
check "a queue that is not listed ends readiness, with the reason" within 10 unready "interface $GIF has 2 receive queues, and 1 can be served"
gw ethtool -L "$GIF" rx 1 tx 1
check "ready again with the former number" within 10 unready '^ready'
gateway_end
mv "$D/gw.conf.all" "$D/gw.conf"
gateway_start

starts=0
# The gateway has ended once more, and is ready again.
starts_again() { awk -v n=$starts '/and its supervisor starts it again/ { i++; ready = 0 } /^ready$/ { ready = 1 } END { exit !(ready && i == n) }' "$D/gw.log"; }
id=$(gw bpftool -j link show | python3 -c 'import json, sys
print(*[l["id"] for l in json.load(sys.stdin) if l["type"] == "xdp" and l.get("ifindex")], sep="\n")' | tail -n 1)
if [ -n "$id" ] && gw bpftool link detach id "$id"; then
	starts=$((starts + 1))
	check "the log has the cause" within 20 grep -q "interface $GIF: the XDP program was detached" "$D/gw.log"
	check "attaches again after another process has detached the program" within 20 starts_again
	check "and serves" hello
fi

ip -n "$C" link del "$CIF"
ip -n "$G" link add "$GIF" type veth peer name "$CIF" netns "$C"
ip -n "$G" addr add "$V4/24" dev "$GIF"
ip -n "$C" addr add 10.99.0.2/24 dev "$CIF"
ip -n "$G" link set "$GIF" up
ip -n "$C" link set "$CIF" up
check "the log has the cause of this" within 20 grep -q "interface $GIF was created again" "$D/gw.log"
starts=$((starts + 1))
check "attaches to the interface that was created again" within 20 starts_again
check "and serves" hello
gateway_end

# The peer's MTU makes veth refuse native mode; packets of its VLANs would arrive without their tags.
ip -n "$C" link set "$CIF" mtu 9000
sed -i "s/^interface.*/interface $GIF { vlan = 100 }/" "$D/gw.conf"
gateway_start
check "the log has the fall-back of mode = auto" grep -q "interface $GIF: mode = auto fell back to generic" "$D/gw.log"
check "and that the configured VLAN's tags are stripped" grep -q "interface $GIF: vlan = 100, but the interface strips" "$D/gw.log"
said() { "$@" | tee "$D/said" | grep -q "$SAID"; }
SAID='generic (native refused' check "status has the fall-back" said gw "$SLUICE" status -c "$D/gw.conf"
gateway_end
SAID='generic only, native:' check "doctor has the fall-back" said gw "$SLUICE" doctor "$GIF"
SAID='rxvlan is on' check "doctor has the stripped tags" said gw "$SLUICE" doctor "$GIF"
ip -n "$C" link set "$CIF" mtu 1500

# Local senders leave checksums to the device: here behind a bridge.
ip -n "$G" link add br0 type bridge
ip -n "$G" link set "$GIF" master br0
ip -n "$G" addr flush dev "$GIF"
ip -n "$G" addr add "$V4/24" dev br0
ip -n "$G" link set br0 up
gateway_config <<EOC
interface br0 {}
listener any { port = 8080 }
route "/" { respond { status = 200 body = "hello\n" } }
EOC
gateway_start
check "serves clients behind a bridge" within 20 hello
head -c 1000000 /dev/zero >"$D/body"
upload() { [ "$(cl curl -sS --max-time 20 --data-binary "@$D/body" "$1:8080/")" = hello ]; }
check "takes the large segments of a local sender: IPv4" upload "http://$V4"
ip -n "$G" addr add "$V6/64" dev br0 nodad
ip -n "$C" addr replace fd99::2/64 dev "$CIF" nodad
check "takes the large segments of a local sender: IPv6" within 20 upload "http://[$V6]"
check "drops no frame" [ "$(metric sluice_port_rx_dropped_total)" -eq 0 ]
check "drops no checksum" [ "$(metric 'sluice_drops_total{worker="0",reason="tcp_checksum"}')" -eq 0 ]
gateway_end
finish
