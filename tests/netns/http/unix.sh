#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients of a Unix socket.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
mkdir "$D/in"
chown "$RUN_AS" "$D/in"
config() { # LISTENERS
	gateway_config <<EOC
$1
workers { count = 2 }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
route "/only" { listener = {in} respond { body = "in\n" } }
route "/" { respond { body = "hello\n" } }
EOC
}
reload() { gw "$SLUICE" reload -c "$D/gw.conf"; }
get() { curl -sS --max-time 10 --unix-socket "$D/in/$1.sock" "http://a/${2:-}"; }
says() { [ "$(get "$1" "${3:-}")" = "$2" ]; }
in="listener in { socket = \"$D/in/in.sock\" mode = 0660 group = \"adm\" }"
other="listener other { socket = \"$D/in/other.sock\" }"

config "$in"
# A socket of a dead process is replaced; other files are not.
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$D/in/in.sock"
gateway_start
check "a request" says in hello
check "a route of its listener" says in in only
check "HTTP/2" eval '[ "$(curl -sS --max-time 10 --http2-prior-knowledge --unix-socket "$D/in/in.sock" http://a/)" = hello ]'
head -c 1048577 /dev/urandom >"$D/body"
check "a large body" eval 'curl -sS -f --max-time 30 --unix-socket "$D/in/in.sock" --data-binary "@$D/body" -o "$D/reply" http://a/echo && cmp "$D/body" "$D/reply"'
check "owner, group and mode" [ "$(stat -c '%U %G %a' "$D/in/in.sock")" = "$RUN_AS adm 660" ]
check "another account cannot connect" eval '! setpriv --reuid 65533 --regid 65533 --clear-groups curl -sS --unix-socket "$D/in/in.sock" http://a/ 2>/dev/null'
check "it is counted" [ "$(metric sluice_sock_accepted_total)" -ge 4 ]

config "$other
$in"
check "a reload that adds one, and moves the first" reload
check "the new one" within 10 says other hello
check "the first keeps its routes" says in in only
check "the new one has none of them" says other hello only
config "$in"
check "a reload that removes one" reload
check "removes its name" within 10 eval '[ ! -e "$D/in/other.sock" ]'
echo text >"$D/in/other.sock"
config "$other
$in"
check "a reload leaves other files alone" eval '! reload >"$D/said" 2>&1; cat "$D/said"; grep -q "gw.conf:1: found socket $D/in/other.sock, which cannot be made: Address already in use; allowed: " "$D/said" && [ "$(cat "$D/in/other.sock")" = text ]'
check "the gateway serves on" says in hello
config "$in"
reload >"$D/said"
gateway_end
check "the name is gone at the end" [ ! -e "$D/in/in.sock" ]
python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
time.sleep(300)' "$D/in/in.sock" &
living=$!
within 10 test -S "$D/in/in.sock"
check "a start leaves living sockets alone" eval '! gw timeout 20 "$SLUICE" run -c "$D/gw.conf" >"$D/said" 2>&1; cat "$D/said"; grep -q "gw.conf:1: found socket .* Address already in use" "$D/said" && [ -S "$D/in/in.sock" ]'
kill "$living"
finish
