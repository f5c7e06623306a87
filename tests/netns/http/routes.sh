#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Routes of a listener and routes by a header: one path, and other pools behind it.
. "$(dirname "$0")/../lib.sh"

arena
for b in public inner canary; do
	backend $b echo
done
serve() { # serve LISTENER...: with these, in this order
	cat <<EOC
interface $GIF { }
$(printf '%s\n' "$@")
pool public { backend a { endpoint = "shm://$D/public.sock" } }
pool inner { backend a { endpoint = "shm://$D/inner.sock" } }
pool canary { backend a { endpoint = "shm://$D/canary.sock" } }
route "/app" { pool = public }
route "/app" { pool = inner listener = inner }
route "/app" { pool = canary header = "X-Canary: yes" }
route "/secret" { respond { status = 200 body = "secret" } listener = inner }
EOC
}
web="listener web { address = \"$V4\" port = 8080 }"
inner="listener inner { address = \"$V4\" port = 8081 }"
serve "$web" "$inner" | gateway_config
gateway_start

# answers POOL PORT [CURL-OPTION...]: the request is that pool's, and no other's
requests() { metric "sluice_stage_seconds_count{pool=\"$1\",stage=\"total\"}"; }
answers() {
	local pool=$1 port=$2 before
	shift 2
	before=$(requests "$pool")
	[ "$(cl curl -sS --max-time 10 -d hello "$@" "http://$V4:$port/app/x")" = hello ] &&
		within 10 eval "[ \$(requests $pool) -eq $((before + 1)) ]"
}
status() { cl curl -sS --max-time 10 -o /dev/null -w '%{http_code}' "$@"; }
for how in --http1.1 --http2-prior-knowledge; do
	check "$how: a path at one listener" answers public 8080 $how
	check "$how: and at another" answers inner 8081 $how
	check "$how: a header picks" answers canary 8080 $how -H 'X-Canary: yes'
	check "$how: with no other value" answers public 8080 $how -H 'X-Canary: yes, please'
	check "$how: nor with another case" answers public 8080 $how -H 'X-Canary: YES'
	check "$how: a listener goes first" answers inner 8081 $how -H 'X-Canary: yes'
	check "$how: a path of one listener is none of another" eval '[ "$(status '$how' "http://$V4:8080/secret")" = 404 ]'
	check "$how: it is there" eval '[ "$(status '$how' "http://$V4:8081/secret")" = 200 ]'
done

# OPTIONS * asks about the whole gateway, not a path: RFC 9110 9.3.7.
for how in --http1.1 --http2-prior-knowledge; do
	check "$how: OPTIONS * names the methods" eval "cl curl -sSi --max-time 10 $how -X OPTIONS --request-target '*' 'http://$V4:8080' >'$D/star' && head -n1 '$D/star' | grep -q '^HTTP/[12.]* 200' && grep -qi '^allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH' '$D/star'"
done
check "no other method is about it" eval '[ "$(status --http1.1 --request-target "*" "http://$V4:8080")" = 400 ]'
serve "$web" "$inner" "$(printf 'route "*" { pool = canary }')" | gateway_config
check "reload" gw "$SLUICE" reload
for how in --http1.1 --http2-prior-knowledge; do
	check "$how: a route * answers it" eval '[ "$(cl curl -sS --max-time 10 '$how' -X OPTIONS -d hello --request-target "*" http://$V4:8080)" = hello ]'
done

# Connections that stay while the listeners change their places in the file.
cat >"$D/stay.py" <<EOC
import os, time
from raw import *
web, inner = Client(port=8080), Client(port=8081)
def statuses():
    found = []
    for c in (web, inner):
        c.send(b"GET /secret HTTP/1.1\r\nHost: x\r\n\r\n")
        found.append(c.reply().status)
    return found
expect("before", statuses(), [404, 200])
open("$D/asked", "w").close()
while not os.path.exists("$D/reloaded"):
    time.sleep(0.05)
expect("after", statuses(), [404, 200])
EOC
reloads() { grep -c "reload: in force: " "$D/gw.log"; }
cl timeout 200 python3 "$D/stay.py" >"$D/stay.out" 2>&1 &
stays=$!
within 30 test -e "$D/asked"
before=$(reloads)
serve "$inner" "$web" | gateway_config
kill -HUP "$gateway_pid"
check "the listeners change places" within 30 eval '[ "$(reloads)" -gt $before ]'
touch "$D/reloaded"
check "connections stay with theirs" eval 'wait $stays || { cat "$D/stay.out"; false; }'
check "new ones find theirs" answers inner 8081
check "and the others" answers public 8080
finish
