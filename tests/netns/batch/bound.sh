#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A backend stands still for a moment: with a hard bound some are refused for it, with a soft one service goes on. More
# than can be served, for longer, is refused with either.
. "$(dirname "$0")/../lib.sh"

arena
backend soft echo --delay-us 2000
backend hard echo --delay-us 2000
backend busy echo --delay-us 20000
gateway <<CONF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool soft { batch { max_latency = 20ms max_size = 16 } backend a { endpoint = "shm://$D/soft.sock" } }
pool hard { batch { max_latency = 20ms max_size = 16 on_overload = hard } backend a { endpoint = "shm://$D/hard.sock" } }
pool busy { batch { max_latency = 60ms max_size = 4 } backend a { endpoint = "shm://$D/busy.sock" } }
route "/soft" { pool = soft }
route "/hard" { pool = hard }
route "/busy" { pool = busy }
CONF

# Twelve clients, each with one request at a time and a pause behind it; the backend is stopped ten times. Prints the
# number of replies by status. `refused`: some must be refused; `none`: none may be.
cat >"$D/stalls.py" <<'EOF'
import collections, os, signal, threading
from raw import *
path, pid, refused = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "refused"
seen, over = collections.Counter(), threading.Event()
def run():
    c = Client()
    while not over.is_set():
        c.send(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
        seen[c.reply().status] += 1
        time.sleep(0.005)
threads = [threading.Thread(target=run) for i in range(12)]
[t.start() for t in threads]
def served(n):
    goal = seen[200] + n
    return eventually(20, lambda: seen[200] >= goal)
ok = served(200)
seen[503] = 0 # while it was not known what the backend takes
for i in range(10):
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.15)
    os.kill(pid, signal.SIGCONT)
    ok = served(100) and ok
over.set()
[t.join() for t in threads]
print(dict(seen))
expect("served again after each", ok, True)
expect("statuses", sorted(s for s in seen if seen[s]), [200, 503] if refused else [200])
EOF
check "soft: nobody is refused because a backend stood still" \
	cl timeout 200 python3 "$D/stalls.py" /soft "${pid_of[soft]}" none
check "hard: it does" cl timeout 200 python3 "$D/stalls.py" /hard "${pid_of[hard]}" refused

# 4 in 20 ms are served; 64 at once are 320 ms behind each other, for as long as it lasts.
shed() { metric 'sluice_exchanges_total{worker="0",outcome="shed"}'; }
before=$(shed)
nsenter --net="/run/netns/$C" wrk -t1 -c64 -d40s "http://$V4:8080/busy" >"$D/wrk.log" 2>&1 9>&- </dev/null &
pid_of[wrk]=$!
more_shed() { local n; n=$(shed) && echo "shed $before, then $n" && [ "$n" -gt $((before + 20)) ]; }
check "soft: sustained overload is refused" within 35 more_shed
kill "${pid_of[wrk]}" 2>/dev/null
wait "${pid_of[wrk]}" 2>/dev/null
unset "pid_of[wrk]"
answered() { cl curl -sf --max-time 5 "http://$V4:8080/busy" >/dev/null; }
check "and when it is over, all are served" within 30 answered
finish
