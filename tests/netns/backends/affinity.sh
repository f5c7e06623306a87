#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Requests with something in common go to one backend (affinity): programs of the SDK, in batches and as streams, and
# unmodified servers.
. "$(dirname "$0")/../lib.sh"

arena
curl_never_blocks
for b in a b c; do
	backend $b echo
done
for p in 8000 8001 8002; do
	gw /usr/bin/python3 "$here/agent/server.py" 127.0.0.1:$p >"$D/server-$p.log" 2>&1 &
	pid_of[server-$p]=$!
	within 30 grep -qs listening "$D/server-$p.log" || say_failed "the server does not start"
done
route() { echo "route \"/$1\" { pool = $2 strip_prefix = yes affinity { $3 } ${4:-} }"; }
{
	cat <<EOC
interface $GIF { }
listener web { address = "$V4" port = 8080 }
pool sdk { backend a { endpoint = "shm://$D/a.sock" } backend b { endpoint = "shm://$D/b.sock" } backend c { endpoint = "shm://$D/c.sock" } }
pool web {
	backend a { endpoint = "http://127.0.0.1:8000" }
	backend b { endpoint = "http://127.0.0.1:8001" }
	backend c { endpoint = "http://127.0.0.1:8002" }
}
EOC
	for pool in sdk web; do
		route $pool/header $pool 'by = header name = "X-Session"'
		route $pool/cookie $pool 'by = cookie name = "session"'
		route $pool/address $pool 'by = address'
		route $pool/prefix $pool 'by = prefix'
		route $pool/stream $pool 'by = prefix depths = {256, 1k}' 'stream = yes'
	done
} | gateway_config
gateway_start
within 30 eval '[ "$(metric sluice_backend_up)" = 6 ]' || say_failed "not all backends are up"

python3 - "$D" <<'PY'
import random, sys
random.seed(3)
text = lambda n: "".join(random.choices("abcdefghij ", k=n))
system = text(3000)
for i in range(8):
    talk = text(80000)
    for turn, n in enumerate((3000, 20000, 80000)):
        with open(f"{sys.argv[1]}/talk-{i}-{turn}", "w") as f:
            f.write(system + talk[:n])
PY

# Requests that each backend of a pool got, as "1 0 2".
counts() {
	admin /metrics | awk -v p="$1" 'match($0, "^sluice_backend_requests_sent_total.*pool=\"" p "\",backend=\"[abc]\"") {
		n[substr($0, RLENGTH - 1, 1)] += $NF }
		END { print n["a"] + 0, n["b"] + 0, n["c"] + 0 }'
}
post() { cl curl -sS --max-time 20 -o /dev/null -w '%{http_code}\n' "$@"; }
# grown POOL BEFORE EXPRESSION: what each got since then, as the list n
grown() {
	python3 -c 'import sys
n = [int(a) - int(b) for a, b in zip(sys.argv[2].split(), sys.argv[1].split())]
print(n)
sys.exit(not eval(sys.argv[3]))' "$2" "$(counts "$1")" "$3"
}
# go_to_one POOL CURL-OPTION...: three such requests have one backend
go_to_one() {
	local pool=$1 before
	shift
	before=$(counts "$pool")
	[ "$(for _ in 1 2 3; do post "$@"; done | xargs)" = "200 200 200" ] && grown "$pool" "$before" "sorted(n) == [0, 0, 3]"
}
# go_to_many POOL CURL-OPTION...: twelve requests that differ in @ have several
go_to_many() {
	local pool=$1 before i
	shift
	before=$(counts "$pool")
	for i in {1..12}; do
		[ "$(post "${@//@/$i}")" = 200 ] || return 1
	done
	grown "$pool" "$before" "max(n) < 12 and sum(n) == 12"
}
# turns POOL TALK: three of a conversation have one backend
turns() {
	local before turn
	before=$(counts "$1")
	for turn in 0 1 2; do
		[ "$(post --data-binary "@$D/talk-$2-$turn" "$url/prefix/echo")" = 200 ] || return 1
	done
	grown "$1" "$before" "sorted(n) == [0, 0, 3]"
}
talks() {
	local before i
	before=$(counts "$1")
	for i in {0..7}; do
		[ "$(post --data-binary "@$D/talk-$i-1" "$url/prefix/echo")" = 200 ] || return 1
	done
	grown "$1" "$before" "$2"
}
for pool in sdk web; do
	url=http://$V4:8080/$pool
	for session in 1 2; do
		check "$pool: a header" go_to_one $pool -d x -H "x-session: $session" "$url/header/echo"
		check "$pool: a cookie" go_to_one $pool -d x -b "other=1; session=$session; session2=4" "$url/cookie/echo"
	done
	check "$pool: an address" go_to_one $pool -d x "$url/address/echo"
	for how in --http1.1 --http2-prior-knowledge; do
		check "$pool $how: a prompt" go_to_one $pool $how --data-binary "@$D/talk-0-1" "$url/prefix/echo"
		check "$pool $how: a prompt, as a stream" go_to_one $pool $how --data-binary "@$D/talk-0-1" "$url/stream/echo"
	done
	check "$pool: headers have several backends" go_to_many $pool -d x -H "x-session: @" "$url/header/echo"
	check "$pool: cookies have several backends" go_to_many $pool -d x -b "session=@" "$url/cookie/echo"
	# A shared prompt does not collapse onto one backend, and the turns of a conversation stay.
	check "$pool: conversations" talks $pool "sum(n) == 8"
	check "$pool: conversations with a shared prompt have several backends" talks $pool "max(n) < 8 and sum(n) == 8"
	for talk in 5 6 7; do check "$pool: turns of a conversation" turns $pool $talk; done
done
check "hits are counted" eval '[ "$(metric sluice_affinity_hits_total)" -gt 100 ]'
check "nothing had to go elsewhere" eval '[ "$(metric sluice_affinity_misses_total)" = 0 ]'

# Sessions of a backend that is lost go to others, all others stay.
homes() {
	local i before
	for i in {1..12}; do
		before=$(counts sdk)
		[ "$(post -d x -H "x-session: $i" "http://$V4:8080/sdk/header/echo")" = 200 ] || echo failed
		grown sdk "$before" "print('abc'[n.index(1)])" | tail -n 1
	done | xargs
}
before=$(homes)
kill_backend b
within 30 eval '[ "$(metric sluice_backend_up)" = 5 ]'
after=$(homes)
check "only sessions of the lost backend move" python3 -c 'import sys
print(sys.argv[1:])
before, after = sys.argv[1].split(), sys.argv[2].split()
sys.exit(not (len(after) == 12 and "b" in before and "b" not in after and all(x == y for x, y in zip(before, after) if x != "b")))' "$before" "$after"
finish
