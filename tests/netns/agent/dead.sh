#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Servers that cannot be reached: others get their requests, attempts back off, and names are looked up again.
# In a mount namespace of its own, for files of the resolver.
[ -n "${SL_OWN_HOSTS:-}" ] || SL_OWN_HOSTS=1 exec unshare -m --propagation slave bash "$0" "$@"
. "$(dirname "$0")/../lib.sh"

arena
cp /etc/hosts "$D/hosts"
mount --bind "$D/hosts" /etc/hosts || exit 1
echo "nameserver 127.0.0.1" >"$D/resolv.conf"
mount --bind "$D/resolv.conf" /etc/resolv.conf || exit 1
# Answers with the address in a file for moves.test, and knows no other name.
cat >"$D/dns.py" <<'PY'
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
print("listening", flush=True)
while True:
    query, client = s.recvfrom(512)
    end = query.index(b"\0", 12) + 5
    known, kind = query[12:end - 4] == b"\5moves\4test\0", query[end - 4:end - 2]
    answer = b""
    if known and kind == b"\0\1":
        with open(sys.argv[1]) as f:
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(f.read().strip())
    flags = b"\x85\x80" if known else b"\x85\x83"
    s.sendto(query[:2] + flags + b"\0\1\0" + bytes([bool(answer)]) + b"\0\0\0\0" + query[12:end] + answer, client)
PY
echo 127.0.0.1 >"$D/address"
gw python3 "$D/dns.py" "$D/address" >"$D/dns.log" 2>&1 </dev/null &
pid_of[dns]=$!
within 30 grep -qs listening "$D/dns.log" || say_failed "the name server does not start"
for a in 127.0.0.1 127.0.0.2; do
	gw /usr/bin/python3 "$here/agent/server.py" $a:8000 >"$D/server-$a.log" 2>&1 </dev/null &
	pid_of[$a]=$!
	within 30 grep -qs listening "$D/server-$a.log" || say_failed "the server $a does not start"
done
dead=$(for i in {1..10}; do echo "backend dead$i { endpoint = \"http://127.0.0.1:$((9000 + i))\" }"; done)
gateway_config <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
pool most { $dead backend live { endpoint = "http://127.0.0.1:8000" } }
pool streamed { $dead backend live { endpoint = "http://127.0.0.1:8000" } }
pool uploads { $dead backend live { endpoint = "http://127.0.0.1:8000" } }
pool named { backend dead { endpoint = "http://127.0.0.1:9001" }  backend named { endpoint = "http://appears.test:8000" } }
pool moving { backend a { endpoint = "http://moves.test:8000" } }
route "/bytes" { pool = most stream = no }
route "/chunks" { pool = streamed stream = yes }
route "/echo" { pool = uploads stream = yes }
route "/sum" { pool = named }
route "/cookies" { pool = moving }
admin { address = "127.0.0.1" port = 9900 }
workers { count = 1 }
CONF
gateway_spawn
spawned=$SECONDS
# The name of the pool "named" is not known yet.
within 30 grep -q 'not ready yet: no backend of pool' "$D/gw.log" || say_failed "the gateway does not start"
live_are_up() {
	local p
	for p in most streamed uploads; do grep -q "backend $p/live is up" "$D/gw.log" || return 1; done
}
within 90 live_are_up || say_failed "the live servers are not connected"
take_baseline

# Sixteen clients of a gateway that has not met its dead servers yet.
cat >"$D/load.py" <<'PY'
import collections, threading
from raw import *
seen, lock, longest = collections.Counter(), threading.Lock(), 0
def run():
    global longest
    c = Client(timeout=20)
    for _ in range(15):
        start = time.monotonic()
        c.send(f"GET {sys.argv[1]} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        status = c.reply().status
        with lock:
            seen[status] += 1
            longest = max(longest, time.monotonic() - start)
threads = [threading.Thread(target=run) for _ in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
print(dict(seen), f"longest {longest * 1000:.0f} ms")
sys.exit(seen != {200: 240})
PY
all_answered() { cl timeout 200 python3 "$D/load.py" "$1"; }
check "ten of eleven servers are dead: all requests are answered" all_answered '/bytes?3'
check "and all of a route that streams" all_answered '/chunks'
check_py "uploads too, with what was on its way to a dead server" <<'PY'
from raw import *
for n in range(30):
    body = bytes([n]) * 100000
    r = post("/echo", body)
    expect("status", r.status, 200)
    expect("body", r.body == body, True)
PY
lines() { grep -cE '(most|streamed)/dead.*(cannot connect|not ready|up for worker)' "$D/gw.log"; }
# Three for each of 20: the backend is up for each worker; the agent cannot connect, and it is not ready. What lasts is said
# again each minute.
few_lines() {
	local n minutes=$(((SECONDS - spawned) / 60))
	n=$(lines)
	echo "$n lines in $((SECONDS - spawned)) s"
	[ "$n" -le $((60 + 40 * minutes)) ]
}
check "the log has one line for each change" few_lines

# Attempts to connect in the gateway's namespace, of agents and dialer.
attempts() { gw awk '$1 == "Tcp:" { if (n++) print $6 }' /proc/net/snmp; }
# A host that is slow makes fewer.
rarely() {
	local before lines start took
	sleep 12
	before=$(attempts) lines=$(lines) start=${EPOCHREALTIME/./}
	sleep 6
	took=$((${EPOCHREALTIME/./} - start))
	echo "$(($(attempts) - before)) attempts of 30 dead servers in $((took / 1000)) ms, $(($(lines) - lines)) lines"
	[ $((($(attempts) - before) * 1000000)) -le $((took * 6)) ] && [ "$(lines)" = "$lines" ]
}
check "thirty dead servers: less than six attempts a second, and no line" rarely

# A name that is not known at the start is tried again.
server() { gw "$SLUICE" status -c "$D/gw.conf" | grep "^server named/named,"; }
check "the status says why a server has no address" eval 'server | grep -q "cannot be reached: appears.test: "'
echo "127.0.0.1 appears.test" >>"$D/hosts"
answers() { [ "$(cl curl -s -m 5 -o /dev/null -w "%{http_code}" "http://$V4:8080$1")" = 200 ]; }
check "agents start again, as a file of the resolver has changed" within 30 grep -q "the resolver's files have changed" "$D/gw.log"
check "it is used when it has one" within 40 answers /sum
check "and the status says so" within 20 eval 'server | grep -q ": up;"'
# It moves; a reload looks it up at once.
check "a server is asked at its first address" within 20 answers /cookies
echo 127.0.0.2 >"$D/address.new"
mv "$D/address.new" "$D/address"
kill -HUP "$gateway_pid"
check "a server that has moved is found" within 20 grep -q "moving/a: moves.test has moved to 127.0.0.2:8000" "$D/gw.log"
end_process "${pid_of[127.0.0.1]}" 10
unset 'pid_of[127.0.0.1]'
check "and asked there" within 20 answers /cookies
finish
