#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The end: what was begun is finished, within bounds.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo --delay-us 200000
config() {
	gateway_config <<EOF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
limits { drain_timeout = $1 body_timeout = 60s }
EOF
}
config 10s
gateway_start

# The backend takes 200 ms, much longer than the clients on a busy host, so nearly always every client has a request under way.
# All of those are answered when the gateway drains; only one that crosses the close of its idle connection on the way is not
# begun, and those are few.
cat >"$D/load.py" <<'EOF'
import threading
from raw import *
CLIENTS = 16
answered, crossed, lost = [0], [0], []
lock = threading.Lock()
def run():
    while True:
        replies = 0
        try:
            c = Client(timeout=30)
        except OSError:
            return
        try:
            while True:
                c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n" + b"d" * 2000)
                r = c.reply()
                expect("status", r.status, 200)
                replies += 1
                with lock:
                    answered[0] += 1
                if r.closed:
                    break
        except (EOFError, ConnectionResetError, BrokenPipeError) as e:
            with lock:
                if c.buf:
                    lost.append("in a reply: %r" % e)
                elif replies:
                    crossed[0] += 1
        except Exception as e:
            with lock:
                lost.append(repr(e))
            return
        time.sleep(0.01)
threads = [threading.Thread(target=run) for _ in range(CLIENTS)]
[t.start() for t in threads]
expect("answers", eventually(50, lambda: answered[0] >= 100), True)
open(sys.argv[1], "w").close()
[t.join() for t in threads]
print("answered", answered[0], "crossed", crossed[0], "lost", lost)
sys.exit(bool(lost) or crossed[0] > CLIENTS // 2)
EOF
cl timeout 120 python3 "$D/load.py" "$D/started" >"$D/load.out" 2>&1 &
load=$!
within 60 test -e "$D/started"
gateway_stop
check "SIGTERM under load loses no request" eval 'wait $load; s=$?; cat "$D/load.out"; [ $s -eq 0 ]'
check "it says that it drains" grep -q "draining" "$D/gw.log"
check "it says that it has stopped" grep -q "^stopped$" "$D/gw.log"

config 60s
gateway_start
stalled() { cl timeout 200 python3 -c '
import os
from raw import *
c = Client(timeout=60)
c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
open("'"$D/stalled"'", "w").close()
eventually(40, lambda: os.path.exists("'"$D/looked"'"))
c.send(b"defghij")
r = c.reply()
expect("reply", (r.status, r.body), (200, b"abcdefghij"))
expect("closed", c.rest(), b"")'; }
stalled >"$D/stalled.out" 2>&1 &
client=$!
within 30 test -e "$D/stalled"
kill -TERM "$gateway_pid"
not_ready() { admin /readyz | grep -q draining; }
check "not ready while it drains" within 30 not_ready
refused() { ! cl nc -z -w 1 "$V4" 8080; }
check "no new connections while it drains" within 30 refused
touch "$D/looked"
check "a body that is still on its way is waited for" wait "$client"
check "then it ends" within 30 eval '! alive $gateway_pid'
wait "$gateway_pid" 2>/dev/null
gateway_pid=

config 1s
gateway_start
rm -f "$D/stalled"
stalled_for_ever() { cl python3 -c '
from raw import *
c = Client(timeout=60)
c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
open("'"$D/stalled"'", "w").close()
c.rest()'; }
stalled_for_ever >"$D/stalled.out" 2>&1 &
client=$!
within 30 test -e "$D/stalled"
kill -TERM "$gateway_pid"
check "the drain timeout bounds it" within 30 eval '! alive $gateway_pid'
wait "$gateway_pid"
check "and is told by the exit status" test $? -eq 1
gateway_pid=
check "the stalled client is not left hanging" within 30 eval '! alive $client'

config 60s
gateway_start
rm -f "$D/stalled"
stalled_for_ever >"$D/stalled.out" 2>&1 &
client=$!
within 30 test -e "$D/stalled"
kill -TERM "$gateway_pid"
sleep 0.3
kill -INT "$gateway_pid"
check "a second signal ends at once" within 30 eval '! alive $gateway_pid'
wait "$gateway_pid" 2>/dev/null
gateway_pid=
kill "$client" 2>/dev/null

config 10s
gateway_start
cl curl -sf --max-time 10 -o /dev/null "http://$V4:8080/echo"
check_leftovers
drain_and_wait() { gw timeout 60 "$SLUICE" drain --wait; }
check "sluice drain --wait" drain_and_wait
check "ends it" within 30 eval '! alive $gateway_pid'
wait "$gateway_pid"
check "with status 0" test $? -eq 0
gateway_pid=
finish
