#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume: alone
# After SIGKILL of an agent that has lived well it starts again at once, and requests are served.
. "$(dirname "$0")/../lib.sh"

arena
gw /usr/bin/python3 "$here/agent/server.py" 127.0.0.1:8000 >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
pool a { backend a { endpoint = "http://127.0.0.1:8000" } }
route "/" { pool = a }
admin { address = "127.0.0.1" port = 9900 }
CONF
agent() { gw "$SLUICE" status -c "$D/gw.conf" | sed -nE 's/^agent 0: process ([0-9]+), .*/\1/p'; }
export -f agent gw
export G SLUICE D
check_py "the next request after its end" <<'PY'
from raw import *
import os, signal, subprocess
for i in range(5):
    expect("served", eventually(20, lambda: get("/bytes?3").body == b"012"), True)
    time.sleep(5.2)  # it has lived well
    pid = int(subprocess.check_output(["bash", "-c", "agent"]))
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    tries = 0
    while get("/bytes?3").status != 200:
        tries += 1
        expect("within 20 s", time.monotonic() - began < 20, True)
        time.sleep(0.01)
    print("%.3f s, after %d refusals" % (time.monotonic() - began, tries))
PY
grep "^[0-9.]* s, after" "$D/out"
at_once() { grep "agent 0 died" "$D/gw.log"; [ "$(grep -c "agent 0 died of signal 9; it starts again in 0 ms" "$D/gw.log")" -eq 5 ]; }
check "each time at once" at_once
finish
