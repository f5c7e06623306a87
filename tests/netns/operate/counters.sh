#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Counters that others keep are shown with the gateway's own: the kernel's drops while the rings are not read, datagrams,
# and HTTP/2.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gateway <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 protocols = {http, datagram} }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo datagram_service = 1 }
route "/" { respond { status = 200 body = "hello\n" } }
EOF

kernel_drops() {
	echo $(($(metric sluice_port_rx_dropped_total) + $(metric sluice_port_rx_ring_full_total) +
		$(metric sluice_port_fill_empty_total)))
}
# Segments of no connection, more than there are frames for them while the gateway stands still. No SYNs, of which the
# XDP program itself refuses what would take the second half of the queue.
cat >"$D/segments.py" <<'EOF'
import json, socket, struct, subprocess, sys
def address(what, key, *args):
    o = json.loads(subprocess.check_output(["ip", "-j", what, "show", *args]))
    return bytes.fromhex(o[0][key].replace(":", ""))
def total(b):
    s = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return struct.pack("!H", ~s & 0xffff)
ends = socket.inet_aton("10.99.0.2") + socket.inet_aton("10.99.0.1")
ip = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0x4000, 64, 6, 0) + ends
tcp = struct.pack("!HHIIBBHHH", 40000, 8080, 1, 1, 0x50, 0x10, 1000, 0, 0)
ip = ip[:10] + total(ip) + ip[12:]
tcp = tcp[:16] + total(ends + struct.pack("!HH", 6, 20) + tcp) + tcp[18:]
frame = address("neigh", "lladdr", "10.99.0.1") + address("link", "address", "dev", sys.argv[1]) + b"\x08\0" + ip + tcp
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
for _ in range(40000):
    s.send(frame)
EOF
overrun() {
	local status
	[ "$(kernel_drops)" -eq 0 ] || { echo "dropped before"; return 1; }
	kill -STOP "$(gateway_child)"
	cl timeout 200 python3 "$D/segments.py" "$CIF"
	status=$?
	kill -CONT "$(gateway_child)"
	return $status
}
cl curl -sS --max-time 10 -o /dev/null "http://$V4:8080/"
check "more segments than frames" overrun
check "what the kernel dropped of them is counted" eval 'kernel_drops; [ "$(kernel_drops)" -gt 0 ]'
head -c 500 /dev/urandom >"$D/body"
check "a datagram" eval 'cl timeout 30 "$BUILD/datagram" -f "$D/body" $V4 8080 1 | cmp - "$D/body"'
check "is counted in and out" eval '[ "$(metric sluice_udp_datagrams_in_total)" -ge 1 ] &&
	[ "$(metric sluice_udp_bytes_out_total)" -ge 500 ]'
check_py "HTTP/2 connections and streams are counted while they last" "$G" <<'EOF'
import json, subprocess, sys
from raw import *
def h2(*keys):
    o = json.loads(subprocess.check_output(["nsenter", "--net=/run/netns/" + sys.argv[1], "curl", "-sS",
                                            "--max-time", "10", "http://127.0.0.1:9900/stats"]))
    return [sum(w["h2"][k] for w in o["workers"]) for k in keys]
expect("connections", h2("connections"), [0])
c = Client()
c.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4\0" + bytes(4))
block = b"\x83\x86\x04\x05/echo\x01\x01x"  # POST http://x/echo, whose body is still to come
c.send(len(block).to_bytes(3, "big") + b"\1\4" + (1).to_bytes(4, "big") + block)
if not eventually(10, lambda: h2("connections", "streams") == [1, 1]):
    expect("connections and streams", h2("connections", "streams"), [1, 1])
if h2("memory") == [0]:
    expect("memory", 0, "more")
c.close()
if not eventually(10, lambda: h2("connections", "streams") == [0, 0]):
    expect("connections and streams in the end", h2("connections", "streams"), [0, 0])
EOF
finish
