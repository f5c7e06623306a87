#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The configuration changes under load: no request fails because of it.
. "$(dirname "$0")/../lib.sh"

arena 2
backend a echo
backend b echo
backend c echo
# config ROUTES-AND-POOLS
config() {
	gateway_config <<CONF
interface $GIF { }
workers { count = 2 }
listener v4 { address = "$V4" port = 8080 }
$1
CONF
}
pool() { # pool NAME BACKENDS [MORE]: backends that are all up
	local b
	echo "pool $1 { batch { max_latency = 10s ${3:-} }"
	for b in $2; do echo "backend $b { endpoint = \"shm://$D/$b.sock\" }"; done
	echo "}"
}
reloads() { grep -c "reload: in force: " "$D/gw.log"; }
reload() { # and wait until it is in force
	local before
	before=$(reloads)
	kill -HUP "$gateway_pid"
	within 30 eval '[ "$(reloads)" -gt '"$before"' ]' || { tail -n 3 "$D/gw.log"; return 1; }
}
get() { cl curl -sS --max-time 10 "http://$V4:8080$1"; }

config "$(pool echo "a b")
route /echo { pool = echo } route / { respond { status = 200 body = one } }"
gateway_start
check "a fixed reply" eval '[ "$(get /)" = one ]'
config "$(pool echo "a b")
route /echo { pool = echo } route / { respond { status = 200 body = two } } route /new { pool = echo }"
check "reload" reload
check "another fixed reply" eval '[ "$(get /)" = two ]'
check "another route" eval '[ "$(cl curl -sS --max-time 10 -d hello "http://$V4:8080/new")" = hello ]'

# Backends that stay keep their connections and counts, at any place in the file.
ups() { grep -c "backend echo/a is up" "$D/gw.log"; }
replies() { # backend a's, over all workers
	admin /stats | python3 -c "import json, sys
print(sum(b['replies'] for w in json.load(sys.stdin)['workers'] for b in w['backends'] if (b['pool'], b['name']) == ('echo', 'a')))"
}
for i in 1 2 3 4 5 6 7 8; do cl curl -sS --max-time 10 -d hello "http://$V4:8080/echo"; done >"$D/said"
before=$(replies)
check "a backend is connected once with each worker, and counted" [ "$(ups)" -eq 2 -a "$before" -gt 0 ]
config "$(pool other c) $(pool echo "b a c" "max_size = 8")
route /echo { pool = echo } route /other { pool = other } route / { respond { status = 200 body = two } }"
check "a reload that moves it, with another pool in front" reload
check "it is not connected again" [ "$(ups)" -eq 2 ]
check "nor counted anew" [ "$(replies)" -ge "$before" ]
config "pool echo { backend a { endpoint = \"shm://$D/b.sock\" } backend b { endpoint = \"shm://$D/a.sock\" } }
route /echo { pool = echo } route / { respond { status = 200 body = two } }"
check "one with another endpoint under its name" reload
check "is another one" eval '[ "$(ups)" -eq 4 ] && [ "$(replies)" -eq 0 ]'

# A request that is under way when its pool goes, and is so still when one of that name comes.
backend held tests/netns/hold --until "$D/go"
with_held() {
	config "$(pool echo "a b") $(pool held held) route /held { pool = held } route / { respond { status = 200 body = two } }"
}
with_held
check "a pool more" reload
cl curl -sS --max-time 60 "http://$V4:8080/held/hold" >"$D/answer" 2>&1 &
waiting=$!
check "a request is under way" within 30 grep -q "took /hold" "$D/held.log"
config "$(pool echo "a b") route / { respond { status = 200 body = two } }"
check "its pool goes" reload
check "and has no route" eval '[ "$(get /held/now)" = two ]'
with_held
check "and comes back" reload
check "for new requests" eval '[ "$(get /held/now)" = x ]'
check "the old one is still under way" alive $waiting
touch "$D/go"
check "and is answered" eval 'wait $waiting && [ "$(cat "$D/answer")" = x ]'
kill_backend held

# A request that is under way when its pool, its backend and its listener are taken out.
backend slow tests/netns/hold --until "$D/go1"
two_listeners() {
	config "listener other { address = \"$V4\" port = 8081 } $(pool echo "a b") $(pool slow slow)
	route /echo { pool = echo } route /slow { pool = slow } route / { respond { status = 200 body = two } }"
}
two_listeners
check "a listener and a pool more" reload
check "the new listener serves" eval '[ "$(cl curl -sS --max-time 10 "http://$V4:8081/")" = two ]'
cl curl -sS --max-time 60 "http://$V4:8081/slow/hold" >"$D/slow" 2>&1 &
slow=$!
cl curl -sS --max-time 60 --keepalive-time 5 "http://$V4:8081/" "http://$V4:8081/slow/hold" >"$D/idle" 2>&1 &
idle=$!
check "requests are under way" within 30 eval '[ "$(grep -c "took /hold" "$D/slow.log")" -eq 2 ]'
config "$(pool echo "a b")
route /echo { pool = echo } route / { respond { status = 200 body = three } }"
check "all of them taken out" reload
check "new requests see that" eval '[ "$(get /slow)" = three ] && [ "$(get /)" = three ]'
check "the old listener takes nobody" eval '! cl nc -z -w 1 "$V4" 8081'
touch "$D/go1"
check "what was under way is answered" eval 'wait $slow && [ "$(cat "$D/slow")" = x ]'
check "on each connection" wait $idle
check "then the kernel has the port again" within 30 eval 'cl timeout 2 nc -zv -w 1 "$V4" 8081 2>&1 | grep -q refused'
kill_backend slow
check "the pool is gone from the metrics" eval '! admin /metrics | grep -F "pool=\"slow\""'

# As many pools as there may be, whatever there was at the start; then as many others, in whose place the first still
# have requests under way.
backend held2 tests/netns/hold --until "$D/go2"
many() { # PREFIX: with the two that are always there, 256
	local i
	for i in {1..253}; do echo "pool $1$i { backend x { endpoint = \"shm://$D/nobody.sock\" } }"; done
}
config "$(pool echo "a b") $(pool held held2) $(many p) pool last { backend x { endpoint = \"shm://$D/a.sock\" } }
route /held { pool = held } route /echo { pool = echo } route /last { pool = last } route / { respond { status = 200 body = many } }"
check "256 pools" reload
check "the last of them serves" eval '[ "$(cl curl -sS --max-time 10 -d hello "http://$V4:8080/last")" = hello ]'
cl curl -sS --max-time 60 "http://$V4:8080/held/hold" >"$D/answer" 2>&1 &
waiting=$!
check "a request is under way" within 30 grep -q "took /hold" "$D/held2.log"
for round in 1 2; do
	config "$(many q$round) $(pool new$round a) $(pool echo "a b") pool last { backend x { endpoint = \"shm://$D/b.sock\" } }
route /new { pool = new$round } route /last { pool = last } route / { respond { status = 200 body = q$round } }"
	check "others instead, $round" reload
	check "they serve, $round" eval '[ "$(get /)" = q$round ] && [ "$(cl curl -sS --max-time 10 -d hello "http://$V4:8080/new")" = hello ]'
	check "and count for themselves, $round" eval 'admin /stats | python3 -c "import json, sys
counts = {s[\"pool\"]: s[\"stages\"][\"total\"][\"count\"] for s in json.load(sys.stdin)[\"pools\"]}
print(counts[\"new$round\"], counts[\"q${round}1\"])
sys.exit((counts[\"new$round\"], counts[\"q${round}1\"], len(counts)) != (1, 0, 256))"'
done
config "$(many q) $(pool new a) $(pool echo "a b") pool more { backend x { endpoint = \"shm://$D/a.sock\" } } pool last { backend x { endpoint = \"shm://$D/b.sock\" } }"
check "257 are a mistake of the file" eval '! gw "$SLUICE" reload >"$D/said" 2>&1; cat "$D/said"; grep -q "found one pool too many; allowed: 256" "$D/said"'
config "$(pool echo "a b")
route /echo { pool = echo } route / { respond { status = 200 body = three } }"
check "and none of them any more" reload
check "the old request is still under way" alive $waiting
touch "$D/go2"
check "and is answered" eval 'wait $waiting && [ "$(cat "$D/answer")" = x ]'
kill_backend held2

# Files that are included: a reload reads those there are now, also from a folder that was empty at the start.
mkdir "$D/conf.d"
included() {
	config "$(pool echo "a b") include = \"conf.d/*.conf\" route /echo { pool = echo } route / { respond { status = 200 body = three } }"
}
included
check "nothing to include" reload
echo 'route /inc { respond { status = 200 body = included } }' >"$D/conf.d/a.conf"
check "a file more" reload
check "is in force" eval '[ "$(get /inc)" = included ]'
printf '\nroute /inc { respond { status = 2000 } }' >"$D/conf.d/b.conf"
check "sluice reload names the file and line of a mistake" eval '! gw "$SLUICE" reload >"$D/said" 2>&1; cat "$D/said"; grep -q "nothing changed: .*conf.d/b.conf:2: found status = \"2000\"" "$D/said"'
chmod 666 "$D/conf.d/b.conf"
check "and refuses one that others may write" eval '! gw "$SLUICE" reload >"$D/said" 2>&1; cat "$D/said"; grep -q "conf.d/b.conf\": a file that others may write" "$D/said"'
rm "$D/conf.d/b.conf" "$D/gw.conf"
mkfifo "$D/gw.conf"
check "a FIFO does not stop the control thread" eval '! gw "$SLUICE" reload >"$D/said" 2>&1; cat "$D/said"; grep -q "gw.conf:0: found a FIFO" "$D/said" && [ "$(admin /livez)" = ok ]'
rm "$D/gw.conf"
included
check "and the file is taken again" reload

# Other ways to say it, and mistakes.
config "$(pool echo "a b") nonsense"
check "sluice reload of a bad file is one line" eval '! gw "$SLUICE" reload >"$D/said" 2>&1; cat "$D/said"; [ "$(wc -l <"$D/said")" -eq 1 ] && grep -q "sluice reload: nothing changed: .*gw.conf:[0-9]*: found" "$D/said"'
config "$(pool echo "a b") nonsense = 1 $(pool other "")"
# As the unit's ExecReload= calls it.
check "sluice reload -c fails with all mistakes" eval '! gw "$SLUICE" reload -c "$D/gw.conf" >"$D/said" 2>&1; cat "$D/said"; [ "$(grep -c "gw.conf:[0-9]*: found" "$D/said")" -eq 2 ] && grep -q "^sluice reload: nothing changed: " "$D/said"'
config "$(pool echo "a b") route /echo { pool = echo } route / { respond { status = 200 body = three } } interface nosuch0 { }"
check "also with those that only the gateway sees" eval '! gw "$SLUICE" reload -c "$D/gw.conf" >"$D/said" 2>&1; cat "$D/said"; grep -q "^sluice reload: nothing changed: .*gw.conf:[0-9]*: found no interface \"nosuch0\"" "$D/said"'
check "and where no gateway is" eval '! "$SLUICE" reload --admin "$D/none.sock" >"$D/said" 2>&1; cat "$D/said"; grep -q "^sluice reload: nothing changed: no gateway answers at" "$D/said"'
check "which changes nothing" eval '[ "$(get /)" = three ]'
config "$(pool echo "a b") route /echo { pool = echo } route / { respond { status = 200 body = four } } limits { max_body = 1k }
memory { frames = 64m }"
sed -i "s/count = 2/count = 1/" "$D/gw.conf"
check "sluice reload tells what is in force and what is not" eval 'gw "$SLUICE" reload >"$D/said"; cat "$D/said"; grep -q "^in force: .*limits.max_body" "$D/said" && grep -q "^needs a restart: workers.count, memory.frames" "$D/said"'
check "the new limit holds" eval '[ "$(head -c 2000 /dev/zero | cl curl -sS --max-time 10 -o /dev/null -w "%{http_code}" --data-binary @- "http://$V4:8080/echo")" = 413 ]'
check "sluice reload --json, of no further change" eval 'gw "$SLUICE" reload --json | python3 -c "import json, sys; o = json.load(sys.stdin); print(o); sys.exit(o[\"in_force\"] != [] or \"workers.count\" not in o[\"needs_restart\"])"'
# A backend that does not come keeps a reload waiting for a while: what the command says holds when it returns.
config "$(pool echo "a b") pool away { backend x { endpoint = \"shm://$D/nobody.sock\" } }
route /echo { pool = echo } route /away { pool = away } route / { respond { status = 200 body = five } }"
check "sluice reload returns when it is in force" eval 'gw "$SLUICE" reload && [ "$(get /)" = five ]'

# 20 reloads under load, each with other backends, pools, routes and batches.
wrk_clean() {
	cat "$D/wrk"
	grep -q 'requests in' "$D/wrk" && ! grep -qE ' 0 requests in|Non-2xx|Socket errors' "$D/wrk"
}
cl wrk -t 2 -c "$WRK_CONNS" -d 600s --timeout 20s "http://$V4:8080/echo" >"$D/wrk" 2>&1 &
load=$!
many_reloads() {
	local i
	for i in 1 2 3 4 5; do
		config "$(pool echo "a c" "max_size = 8")
		route /echo { pool = echo } route / { respond { status = 200 body = n$i } }"
		reload || return 1
		config "$(pool echo "c") $(pool other "b")
		route /echo { pool = other } route / { respond { status = 200 body = m$i } }"
		reload || return 1
		config "$(pool other "a b" "policy = fixed size = 4 delay = 1ms")
		route /echo { pool = other }  route /more { respond { status = 204 } }"
		reload || return 1
		config "$(pool echo "b a")
		route /echo { pool = echo } route / { respond { status = 200 body = end } }"
		reload || return 1
	done
}
check "20 reloads" many_reloads
check "while there was load" alive $load
pkill -INT -x wrk -P $load || kill -INT $load
wait $load
check "which lost no request" wrk_clean
check "the last one is in force" eval '[ "$(get /)" = end ]'
check "and only its pools are shown" eval 'admin /stats | python3 -c "import json, sys
o = json.load(sys.stdin)
names = [s[\"pool\"] for s in o[\"pools\"]], [[b[\"pool\"] + b[\"name\"] for b in w[\"backends\"]] for w in o[\"workers\"]]
print(names)
sys.exit(names != ([\"echo\"], [[\"echoa\", \"echob\"]] * 2) and names != ([\"echo\"], [[\"echob\", \"echoa\"]] * 2))"'
finish
