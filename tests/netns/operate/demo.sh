#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo shows what it says, and cleans up after ^C and after itself when it was killed.
. "$(dirname "$0")/../lib.sh"

if [ "${SL_SANITIZED:-}" = 1 ]; then
	# The demo starts the backend in Python by `env`.
	mkdir "$D/bin"
	printf '#!/bin/sh\nexec /usr/bin/env %s "$@"\n' "${SANITIZED_PYTHON[*]}" >"$D/bin/env"
	chmod +x "$D/bin/env"
	PATH=$D/bin:$PATH
fi
gone() { ! ip netns list | grep -qE '^sl-(gw|client)\b' && [ ! -e /run/sluice-demo ]; }
check "no other demo runs here" gone
demo() {
	local s
	timeout 100 "$SLUICE" demo >"$D/demo" 2>&1
	s=$?
	cat "$D/demo"
	return $s
}
check "all of it works" demo
check "the last line counts" eval 'tail -n 1 "$D/demo" | grep -qE "^demo: [0-9]+ requests, [0-9]+ ok, 0 failed$"'
# The screen that it ends in: rows of what was asked and what came, eight stages, where to look next.
screen() { sed -n '/^What was asked/,$p' "$D/demo"; }
rows() { screen | sed '/^$/,$d' | grep -cE ' ok .* [0-9.]+ ms$'; }
stages() { screen | sed -n '/^Where the time of/,/^$/p' | grep -cE '^  [a-z]+ +.* (0|[0-9.]+[mun]?s) +(0|[0-9.]+[mun]?s)$'; }
check "it ends in a table: nineteen rows" [ "$(rows)" = 19 ]
check "of ten stages, each with times" [ "$(stages)" = 10 ]
check "and three commands" [ "$(screen | sed -n '/^Where to look next/,/^$/p' | grep -c '^  ')" = 3 ]
check "in a screen: $(screen | wc -l) lines, none wider than 100" eval '[ "$(screen | wc -l)" -le 43 ] && ! screen | grep -qE "^.{101}"'
check "no dump of a map in it" eval '! grep -q "\"key\"" "$D/demo"'
check "nothing remains" gone

keep() {
	rm -f "$D/keep" # or what the one before said would be found
	"$SLUICE" demo --keep --maps >"$D/keep" 2>&1 </dev/null &
	pid_of[demo]=$!
	within 90 grep -qs "The arena stays until" "$D/keep"
}
check "--keep keeps it" keep
check "--maps shows the maps" eval 'grep -q "\"key\"" "$D/keep" && grep -q sl_svc_live "$D/keep"'
check "for clients of one's own" eval '[ "$(ip netns exec sl-client curl -sS --max-time 10 http://10.99.0.1:8080/)" = "hello from sluice" ]'
check "datagrams, too" eval '[ "$(echo hi | ip netns exec sl-client "$BUILD/datagram" 10.99.0.1 8080 1)" = hi ]'
check "and gRPC" ip netns exec sl-client timeout 60 /usr/bin/python3 -c '
import grpc
call = grpc.insecure_channel("10.99.0.1:8080").unary_unary("/sluice.demo.Echo/Echo")
assert call(b"hello", timeout=20) == b"hello"'
check "a second demo is refused" eval '! "$SLUICE" demo && "$SLUICE" demo 2>&1 | grep -q "another demo is running"'
kill -INT "${pid_of[demo]}"
check "^C ends it" eval 'wait ${pid_of[demo]}'
unset "pid_of[demo]"
check "and nothing remains" gone

check "--keep once more" keep
kill -KILL "${pid_of[demo]}"
wait "${pid_of[demo]}" 2>/dev/null
unset "pid_of[demo]"
check "killed, its processes end with it" within 30 eval '[ -z "$(ip netns pids sl-gw)" ]'
check "the next one removes what is left" eval 'demo && grep -q "removed what a killed demo left behind" "$D/demo"'
check "and leaves nothing itself" gone
finish
