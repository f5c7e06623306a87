#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Batches follow sl_svc_live, an operator's bpftool takes over and gives back, and XDP refuses what is overloaded.
. "$(dirname "$0")/../lib.sh"

arena
backend a echo --delay-us 4000
gateway <<CONF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo {
	batch { max_latency = 10s max_size = 64 }
	backend a { endpoint = "shm://$D/a.sock" }
}
route "/" { pool = echo }
CONF

maps=/sys/fs/bpf/sluice/$GIF
live() { bpftool -j map lookup pinned "$maps/sl_svc_live" key hex 00 00 00 00 |
	python3 -c 'import json, sys; v = json.load(sys.stdin)["formatted"]["value"]; print(*[v[k] for k in sys.argv[1:]])' "$@"; }
# control SIZE SHED: two little-endian words of sl_svc_ctl; the other fields stay with the controller.
control() {
	local w words=()
	for w in "$1" "$2" 0 0 0 0 0 0; do
		words+=($((w & 255)) $((w >> 8 & 255)) $((w >> 16 & 255)) $((w >> 24 & 255)))
	done
	bpftool map update pinned "$maps/sl_svc_ctl" key 0 0 0 0 value "${words[@]}"
}
# The mean size of the next batches, in tenths; at least 30 of them.
mean_tenths() {
	local b0 r0 b1 r1
	read -r b0 r0 < <(live batches requests)
	within 30 eval "[ \$(live batches) -ge $((b0 + 30)) ]" || return 1
	read -r b1 r1 < <(live batches requests)
	echo $(((r1 - r0) * 10 / (b1 - b0)))
}
mean_is() { local m; m=$(mean_tenths) && echo "mean size $m tenths" && test "$m" "$1" "$2"; }
live_is() { local v; v=$(live "$1") && echo "$1 is $v" && test "$v" "$2" "$3"; }

# Sixteen clients, each with one request at a time: a batch takes 4 ms, so all that wait go together.
nsenter --net="/run/netns/$C" wrk -t1 -c16 -d120s "http://$V4:8080/" >"$D/wrk.log" 2>&1 9>&- </dev/null &
pid_of[wrk]=$!

check "the controller publishes" within 30 live_is updated_ns -gt 0
check "load makes batches" within 30 mean_is -gt 30
check "service time is learnt" within 30 live_is alpha_ns -gt 2000000
check "round trips are seen" within 30 live_is rtt_ns -gt 0
check "arrivals are counted" within 30 live_is arrival_mhz -gt 1000
check "bound is the configured one" live_is bound_ns -eq 10000000000

check "bpftool sets the size" control 2 0
check "the controller takes it" within 30 live_is batch_cap -eq 2
check "the next batches follow" mean_is -le 20
check "bpftool sets another" control 1 0
check "which follow, too" within 30 mean_is -eq 10
check "bpftool gives back" control 0 0
check "control returns" within 30 live_is batch_cap -gt 2
check "and with it larger batches" within 30 mean_is -gt 30

kill "${pid_of[wrk]}" 2>/dev/null
wait "${pid_of[wrk]}" 2>/dev/null
unset "pid_of[wrk]"

# A connection from before stays, new ones are refused in XDP.
cat >"$D/keep.py" <<'EOF'
from raw import *
import os
c = Client()
def ask():
    c.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert c.reply().status == 200
ask()
open(sys.argv[1] + "/open", "w").close()
while not os.path.exists(sys.argv[1] + "/shedding"):
    time.sleep(0.05)
for i in range(20):
    ask()
try:
    connect(timeout=1.5)
except OSError:
    pass
else:
    raise SystemExit("a new connection got through")
ask()
open(sys.argv[1] + "/done", "w").close()
while not os.path.exists(sys.argv[1] + "/clear"):
    time.sleep(0.05)
n = Client()
n.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
assert n.reply().status == 200
EOF
nsenter --net="/run/netns/$C" timeout 90 python3 "$D/keep.py" "$D" >"$D/keep.log" 2>&1 9>&- </dev/null &
pid_of[keep]=$!
check "a client is connected" within 30 test -e "$D/open"
drops() { bpftool -j map dump pinned "$maps/sl_rx_drops" | md5sum; }
before=$(drops)
check "bpftool refuses all that is new" control 0 65537
check "the idle controller publishes it" within 30 live_is shed_level -eq 65536
: >"$D/shedding"
check "new connections are refused, old ones served" within 30 test -e "$D/done"
check "they are counted by name" eval 'admin /metrics | grep shed_connection | grep -v "^#" | grep -vq " 0$"'
check "and in the map" test "$before" != "$(drops)"
check "bpftool admits again" control 0 0
check "the controller follows" within 30 live_is shed_level -eq 0
: >"$D/clear"
wait "${pid_of[keep]}"
status=$?
unset "pid_of[keep]"
check "new connections are served again" eval "cat '$D/keep.log'; [ $status -eq 0 ]"
finish
