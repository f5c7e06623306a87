#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Servers that fail are ejected and return; backends are drained and weighted by hand; backups, retries.
. "$(dirname "$0")/../lib.sh"

arena
mkdir "$D/state"
chmod 777 "$D/state"
# server NAME PORT
server() {
	: >"$D/$1.log"
	nsenter --net="/run/netns/$G" /usr/bin/python3 "$here/agent/health_server.py" "127.0.0.1:$2" "$1" "$D/state" >"$D/$1.log" 2>&1 </dev/null &
	pid_of[$1]=$!
	within 30 grep -qs listening "$D/$1.log" || say_failed "the server $1 does not start"
}
port=8001
for s in a b c d; do server $s $((port++)); done
gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
pool three {
	backend a { endpoint = "http://127.0.0.1:8001" }
	backend b { endpoint = "http://127.0.0.1:8002" }
	backend c { endpoint = "http://127.0.0.1:8003" }
	eject_time = 3s
	slow_start = 500ms
}
pool four {
	backend a { endpoint = "http://127.0.0.1:8001" weight = 4 }
	backend b { endpoint = "http://127.0.0.1:8002" }
	backend c { endpoint = "http://127.0.0.1:8003" }
	backend d { endpoint = "http://127.0.0.1:8004" }
	slow_start = 0
}
zone = "west"
pool spare {
	backend a { endpoint = "http://127.0.0.1:8001" backup = yes zone = "west" }
	backend b { endpoint = "http://127.0.0.1:8002" zone = "east" }
	backend d { endpoint = "http://127.0.0.1:8004" }
}
route "/three" { pool = three stream = no }
route "/streamed" { pool = three stream = yes }
route "/four" { pool = four }
route "/spare" { pool = spare }
admin { address = "127.0.0.1" port = 9900 }
CONF

# load.py PATH COUNT: requests of four clients. Prints replies by name and status, of both halves.
cat >"$D/load.py" <<'PY'
import collections, json, threading
from raw import *
path, count = sys.argv[1], int(sys.argv[2])
seen, lock = [], threading.Lock()
def run():
    c = Client(timeout=30)
    while True:
        with lock:
            if len(seen) >= count:
                return
        c.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        r = c.reply()
        with lock:
            seen.append((r.status, r.body.decode() if r.status == 200 else "-"))
threads = [threading.Thread(target=run) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
later = seen[len(seen) // 2:]
print(json.dumps({"statuses": collections.Counter(s for s, _ in seen), "later": collections.Counter(s for s, _ in later),
                  "names": collections.Counter(n for _, n in seen)}))
PY
load() { cl timeout 200 python3 "$D/load.py" "$1" "$2" >"$D/load.json" && cat "$D/load.json"; }
# of EXPRESSION: of the last load, as o
of() { python3 -c "import json, sys; o = json.load(open('$D/load.json')); n = o['names'].get; s = o['statuses'].get; sys.exit(not ($1))"; }
sets() { gw "$SLUICE" set -c "$D/gw.conf" "$@"; }
metric() { gw curl -s http://127.0.0.1:9900/metrics | awk -v n="$1" -v p="pool=\"$2\",backend=\"$3\"" 'index($0, n "{") == 1 && index($0, p) { s += $2 } END { print s + 0 }'; }

for path in /three /streamed; do
	echo 500 >"$D/state/c.status"
	few_errors() { load $path 600 && of "0 < s('500', 0) < 10 and o['later'].get('500', 0) <= 6"; }
	check "$path: of a server that answers 500 come less than ten errors" few_errors
	says_so() {
		local ejections
		ejections=$(metric sluice_backend_ejections_total three c)
		gw "$SLUICE" status -c "$D/gw.conf" | grep 'three/c'
		grep -c 'three/c: .* failed, .*; ejected for' "$D/gw.log"
		[ "$ejections" -gt 0 ] && [ "$(metric sluice_backend_ejections_total three a)" = 0 ] &&
			[ "$(grep -c 'three/c: .* failed, .*; ejected for' "$D/gw.log")" -ge "$ejections" ]
	}
	check "$path: a line and a metric for each ejection" says_so
	rm "$D/state/c.status"
	comes_back() { within 60 eval "load $path 100 >/dev/null && of \"n('c', 0) > 15\""; }
	check "$path: the server returns when it answers again" comes_back
done
not_found() {
	local before
	before=$(metric sluice_backend_faults_total three c)
	echo 404 >"$D/state/c.status"
	load /three 300 && of "s('404', 0) > 30" && [ "$(metric sluice_backend_faults_total three c)" = "$before" ]
}
check "404 is no failure of the server" not_found
echo 0 >"$D/state/c.status"
closes() { load /three 300 && of "s('200', 0) >= 290"; }
check "a server that closes connections is ejected" closes
rm "$D/state/c.status"

# Its share is four of seven, less when it is busy and others are idle. A server that pauses gets less.
check "weight: a gets more" within 60 eval "load /four 1400 && of \"max(n('b'), n('c'), n('d')) * 1.3 < n('a') < 1000\""
check "a backend is drained" eval "sets four/a state=drain | grep -q drain && load /four 100 && of \"n('a', 0) == 0 and s('200') >= 100\""
check "status shows it" eval "gw '$SLUICE' status -c '$D/gw.conf' | grep 'four/a.*drained'"
sets four/a state=up weight=1 >/dev/null
check "and is used again" within 60 eval "load /four 400 && of \"50 < n('a', 0) < 150\""
refuses() { ! sets four/a state=off && ! sets four/a size=3 && ! sets four/x state=up && ! sets four/b weight=0; }
check "other values are refused" refuses
check "a backup and another zone get nothing while a backend of this zone is up" eval "load /spare 100 && of \"n('d') >= 100\""
check "then the other zone gets all" eval "sets spare/d state=drain && load /spare 100 && of \"n('b') >= 100\""
check "status shows it" eval "gw '$SLUICE' status -c '$D/gw.conf' | grep 'spare/b.*another zone'"
check "then the backup" eval "sets spare/b state=drain && load /spare 100 && of \"n('a') >= 100\""
sets spare/d state=up >/dev/null
sets spare/b state=up >/dev/null

# Half of a pool is killed under load: what may be repeated is.
half() {
	load /four 4000 &
	local pid=$!
	within 30 eval "[ \"\$(metric sluice_backend_requests_sent_total four d)\" -gt 400 ]"
	kill -KILL "${pid_of[c]}" "${pid_of[d]}"
	wait $pid && of "o['statuses'] == {'200': sum(o['statuses'].values())}"
}
check "half of a pool is killed: no error" half

finish
