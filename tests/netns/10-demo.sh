#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo shows what it says, and cleans up after ^C and after itself when it was killed.
. "$(dirname "$0")/lib.sh"

gone() { ! ip netns list | grep -qE '^sl-(gw|client)\b' && [ ! -e /run/sluice-demo ]; }
check "no other demo runs here" gone
demo() {
	local s
	timeout 100 "$SLUICE" demo >"$D/demo" 2>&1
	s=$?
	grep -vE '^    +[]["{}]' "$D/demo"
	return $s
}
check "all of it works" demo
check "the last line counts" eval 'tail -n 1 "$D/demo" | grep -qE "^demo: [0-9]+ requests, [0-9]+ ok, 0 failed$"'
check "nothing remains" gone

keep() {
	"$SLUICE" demo --keep >"$D/keep" 2>&1 </dev/null &
	pid_of[demo]=$!
	within 90 grep -q "The arena stays until" "$D/keep"
}
check "--keep keeps it" keep
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
check "killed, its processes end with it" within 10 eval '[ -z "$(ip netns pids sl-gw)" ]'
check "the next one removes what is left" eval 'demo && grep -q "removed what a killed demo left behind" "$D/demo"'
check "and leaves nothing itself" gone
finish
