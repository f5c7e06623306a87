#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume
# The largest bodies there are through an agent, both ways.
. "$(dirname "$0")/../lib.sh"

arena
gw /usr/bin/python3 "$here/agent/server.py" 127.0.0.1:8000 >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
in_group nsenter --net="/run/netns/$G" "$SLUICE" agent --listen "shm://$D/agent.sock" --to http://127.0.0.1:8000 >"$D/agent.log" 2>&1 </dev/null &
pid_of[agent]=$!
within 30 test -S "$D/agent.sock" || say_failed "the agent does not start"
gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
limits { max_body = 64m address_frames = 1 }
memory { frames = 512m }
pool web { batch { policy = direct } backend a { endpoint = "shm://$D/agent.sock" } }
route "/" { pool = web strip_prefix = no forward_headers = {"*"} }
CONF

check_py "64 MiB in one request and in one reply" <<'PY'
from raw import *
import hashlib
n = 64 << 20
body = bytes(range(256)) * (n // 256)
r = post("/sum", body)
expect("sum", (r.status, r.body.decode()), (200, hashlib.sha256(body).hexdigest()))
r = get(f"/bytes?{n}")
expect("bytes", (r.status, len(r.body), hashlib.sha256(r.body).hexdigest()),
       (200, n, hashlib.sha256(b"0123456789abcdef" * (n // 16)).hexdigest()))
PY

finish
