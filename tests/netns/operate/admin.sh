#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Rights at the admin endpoint: users, pages of other origins, silent connections, tokens.
. "$(dirname "$0")/../lib.sh"

arena
config() {
	gateway_config <<EOC
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
route "/" { respond { status = 200 body = "hello\n" } }
$1
EOC
}
SOCKET=/run/sluice/$GIF.sock
URL=http://127.0.0.1:9900
stranger() { gw setpriv --reuid 65533 --regid 65533 --clear-groups "$@"; }
member() { gw setpriv --reuid 65533 --regid 65533 --groups "$(getent group daemon | cut -d: -f3)" "$@"; }
# code COMMAND...: the HTTP status of a curl that may have a prefix
code() { "$@" -s -o /dev/null -w '%{http_code}' --max-time 5; }
# refused STATUS COMMAND...
refused() {
	local want=$1 got
	shift
	got=$(code "$@")
	echo "found $got, expected $want"
	[ "$got" = "$want" ]
}
same_as_before() { alive "$gateway_pid" && [ "$(admin /readyz)" = ready ]; }

config ""
gateway_start
check "the start names the socket" grep -q "^admin: unix:$SOCKET\$" "$D/gw.log"
check "which is for its owner only" eval '[ "$(stat -c %a:%u "$SOCKET")" = 600:0 ]'
for path in /drain /reload '/set?pool=x&shed=1'; do
	check "uid 65533 POSTs $path over TCP" refused 403 stranger curl -X POST "$URL$path"
	check "with the header that used to do it" refused 403 stranger curl -X POST -H 'Sluice-Admin: 1' "$URL$path"
	check "and on the socket" refused 000 stranger curl -X POST --unix-socket "$SOCKET" "http://x$path"
	check "uid 0 over TCP" refused 403 gw curl -X POST -H 'Sluice-Admin: 1' "$URL$path"
done
check "sluice drain of uid 65533" eval '! stranger "$SLUICE" drain && ! stranger "$SLUICE" drain -c "$D/gw.conf" && ! stranger "$SLUICE" drain --admin 127.0.0.1:9900'
check "sluice status of uid 65533 goes to TCP" eval 'stranger "$SLUICE" status | grep -q "^ready"'
chmod 666 "$SOCKET"
check "uid 65533 on a socket that others may write" refused 403 stranger curl -X POST --unix-socket "$SOCKET" http://x/drain
check "still there" same_as_before
check "root by the socket, found by the interface" eval 'gw "$SLUICE" reload | grep -q "^in force: nothing new"'
check "root by -c" eval 'gw "$SLUICE" reload -c "$D/gw.conf" | grep -q "^in force"'
check "root by --admin" eval 'gw "$SLUICE" status --admin "$SOCKET" | grep -q "^ready"'
check "curl on the socket" eval '[ "$(gw curl -sS --unix-socket "$SOCKET" http://x/readyz)" = ready ]'

check "a foreign Host" refused 421 gw curl -H 'Host: attacker.example:9900' "$URL/stats"
check "a foreign Host asks for life" refused 421 gw curl -H 'Host: attacker.example' "$URL/livez"
check "another port" refused 421 gw curl -H 'Host: 127.0.0.1:80' "$URL/stats"
check "a foreign Origin" refused 403 gw curl -H 'Origin: http://attacker.example' "$URL/stats"
check "a foreign Origin of the same name, as DNS rebinding has it" refused 421 gw curl -H 'Host: attacker.example:9900' -H 'Origin: http://attacker.example:9900' "$URL/stats"
check "Sec-Fetch-Site: cross-site" refused 403 gw curl -H 'Sec-Fetch-Site: cross-site' "$URL/events"
check "the dashboard's own requests" refused 200 gw curl -H "Origin: $URL" -H 'Sec-Fetch-Site: same-origin' "$URL/stats"
check "localhost" refused 200 gw curl -H 'Host: localhost:9900' "$URL/stats"

# 64 connections used to be all that there were.
stranger /usr/bin/python3 -u - >"$D/silent" <<'EOF' &
import socket, time
held = []
for i in range(300):
    s = socket.create_connection(("127.0.0.1", 9900))
    if i % 3 == 1:
        s.sendall(b"GET /livez HTTP/1.1\r\nHost: ")
    elif i % 3 == 2 and i < 100:
        s.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    held.append(s)
print("held")
time.sleep(200)
EOF
silent=$!
within 30 test -s "$D/silent"
check "300 connections are held" test -s "$D/silent"
probes() {
	local i
	for i in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(admin /livez)" = ok ] && [ "$(admin /readyz)" = ready ] || return 1
	done
}
check "livez and readyz answer all the same" probes
check "and the socket" eval 'gw "$SLUICE" status | grep -q "^ready"'
check "while they are held" alive $silent
kill $silent
wait $silent 2>/dev/null

printf 'nonsense = "of the file"\n' >>"$D/gw.conf"
check "root is told what is wrong in the file" eval 'gw "$SLUICE" reload 2>&1 | grep -q "nothing changed: .*gw.conf:[0-9]*: found unknown key"'
config "listener v4 { port = 1 } nonsense = 1"
check "each mistake" eval '[ "$(gw "$SLUICE" reload 2>&1 | grep -c "gw.conf:[0-9]*: found")" -eq 2 ]'
check "still there" same_as_before
gateway_end
check "the socket has gone" test ! -e "$SOCKET"

config 'admin { group = daemon }'
gateway_start
check "the socket is its group's too" eval '[ "$(stat -c %a:%G "$SOCKET")" = 660:daemon ]'
check "a member looks" eval 'member "$SLUICE" status --admin "$SOCKET" | grep -q "^ready"'
check "but does not drain" refused 403 member curl -X POST --unix-socket "$SOCKET" http://x/drain
check "nor reload" refused 403 member curl -X POST --unix-socket "$SOCKET" http://x/reload
check "a stranger does not look" refused 000 stranger curl --unix-socket "$SOCKET" http://x/stats
check "still there" same_as_before
gateway_end

config 'admin { group = daemon group_role = operate port = 0 }'
gateway_spawn
within 30 is_ready
check "no TCP" eval '! gw nc -z -w 1 127.0.0.1 9900'
check "a member that operates reloads" eval 'chmod 755 "$D"; member "$SLUICE" reload --admin "$SOCKET" | grep -q "^in force"'
config "nonsense = secret"
check "but is not told what stands in the file" eval '! member "$SLUICE" reload --admin "$SOCKET" >"$D/said" 2>&1; cat "$D/said"; grep -q "found 1 mistake; the log names it" "$D/said" && ! grep -q nonsense "$D/said"'
check "the log has it" grep -q 'reload: nothing changed: .*unknown key "nonsense"' "$D/gw.log"
check "a member that operates drains" eval 'member "$SLUICE" drain --wait --admin "$SOCKET"'
within 30 eval '! alive "$gateway_pid"'
wait "$gateway_pid"
gateway_pid=''

# A gateway that was killed leaves its socket; the next one takes its place. Not in /run/sluice, where each starting
# gateway removes sockets without a listener.
LEFT=$D/left.sock
config "admin { socket = \"$LEFT\" }"
gateway_spawn
within 30 is_ready
child=$(gateway_child)
kill -KILL "$gateway_pid"
wait "$gateway_pid" 2>/dev/null
within 30 eval '! alive "$child"'
check "a socket is left behind" test -S "$LEFT"
gateway_start
check "and replaced" eval 'gw "$SLUICE" status --admin "$LEFT" | grep -q "^ready"'
gateway_end

# Beyond loopback.
fails_with() {
	local text=$1
	! gw "$SLUICE" run -c "$D/gw.conf" >"$D/said" 2>&1 || return 1
	cat "$D/said"
	[ "$(wc -l <"$D/said")" -eq 1 ] && grep -qF "$text" "$D/said"
}
config 'admin { address = "0.0.0.0" }'
check "not without a token" fails_with 'gw.conf:4: found address = "0.0.0.0" without token_file; allowed: a loopback address'
echo 0123456789abcdef0123 >"$D/token"
chmod 644 "$D/token"
config "admin { address = \"0.0.0.0\" token_file = \"$D/token\" }"
check "nor with one that others may read" fails_with 'that others than its owner may use; allowed: a file with mode 600'
chmod 600 "$D/token"
gateway_spawn
within 30 is_ready
check "without the token" refused 401 gw curl "$URL/stats"
check "with another one" refused 401 gw curl -H 'Authorization: Bearer 0123456789abcdef0124' "$URL/stats"
check "with it" refused 200 gw curl -H 'Authorization: Bearer 0123456789abcdef0123' "$URL/stats"
check "with it as a password, as a browser shows it" refused 200 gw curl -u admin:0123456789abcdef0123 "$URL/"
check "with a wrong password" refused 401 gw curl -u 0123456789abcdef0123: "$URL/"
check "probes need none" eval '[ "$(gw curl -sS --max-time 5 "$URL/livez")" = ok ]'
check "the command line shows it" eval 'gw "$SLUICE" status -c "$D/gw.conf" --admin 127.0.0.1:9900 | grep -q "^ready"'
check "and is refused without" eval '! gw "$SLUICE" status --admin 127.0.0.1:9900'
gateway_stop
exit_with_counts
