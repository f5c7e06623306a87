#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# via = auto: the choice, its reason in check, doctor, status and /stats, and a route that changes.
. "$(dirname "$0")/../lib.sh"

arena
# serve NAME NAMESPACE ADDRESS
serve() {
	: >"$D/$1.log"
	nsenter --net="/run/netns/$2" /usr/bin/python3 "$here/agent/server.py" "$3" >"$D/$1.log" 2>&1 </dev/null &
	pid_of[$1]=$!
	within 30 grep -qs listening "$D/$1.log" || say_failed "the server $1 does not start"
}
serve beyond "$C" 10.99.0.2:8000
serve here "$G" 127.0.0.1:8001
gateway_config <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
tcp { server_ports = "20000-29999" }
pool beyond { backend a { endpoint = "http://10.99.0.2:8000" via = auto } }
pool here { backend a { endpoint = "http://127.0.0.1:8001" via = auto } }
pool named { backend a { endpoint = "http://localhost:8001" via = auto } }
pool h2 { backend a { endpoint = "h2://10.99.0.2:8002" via = auto } }
route "/beyond" { pool = beyond strip_prefix = yes forward_headers = {"*"} }
route "/here" { pool = here strip_prefix = yes forward_headers = {"*"} }
route "/named" { pool = named strip_prefix = yes forward_headers = {"*"} }
route "/h2" { pool = h2 }
admin { address = "127.0.0.1" port = 9900 }
CONF
# said COMMAND...: its output has a line for each choice
said() {
	"$@" >"$D/said"
	grep -q "beyond/a: stack: it is reached by $GIF\$" "$D/said" && grep -q 'here/a: agent: 127.0.0.1 is on this host$' "$D/said" &&
		grep -q 'named/a: agent: localhost is a name$' "$D/said" && grep -q 'h2/a: agent: the endpoint has TLS$' "$D/said"
}
check "check says the way of each server, and why" said gw "$SLUICE" check -c "$D/gw.conf"
json() { gw "$SLUICE" check --json -c "$D/gw.conf" | python3 -c 'import json, sys; s = json.load(sys.stdin)["servers"]; sys.exit([v["way"] for v in s] != ["stack", "agent", "agent", "agent"])'; }
check "and as JSON" json
diagnosed() {
	gw "$SLUICE" doctor -c "$D/gw.conf" >"$D/said"
	grep -q "beyond/a *http://10.99.0.2:8000: a server, by the workers' own TCP: it is reached by $GIF" "$D/said" &&
		grep -q "here/a *http://127.0.0.1:8001: a server, through an agent of the gateway's own: 127.0.0.1 is on this host" "$D/said"
}
check "doctor, too" diagnosed
of() { gw "$SLUICE" check -c "$D/other.conf" | tee "$D/said" | grep -q "beyond/a: agent: $1\$"; }
without() {
	sed '/^tcp/d' "$D/gw.conf" >"$D/other.conf" && of 'tcp.server_ports is not set' || return 1
	sed "s/^interface .*/interface \"$GIF\" { mode = socket }/" "$D/gw.conf" >"$D/other.conf" && of "it is reached by $GIF, which has no XDP" || return 1
	sed 's/10.99.0.2/203.0.113.9/' "$D/gw.conf" >"$D/other.conf" && of 'no route to 203.0.113.9'
}
check "and what keeps the workers from it" without

gateway_spawn
get() { [ "$(cl curl -s -o /dev/null -w '%{http_code}' "http://$V4:8080$1")" = 200 ]; }
all() { get /beyond/head && get /here/head && get /named/head; }
check "each server is reached on its way" within 30 all
status() { gw "$SLUICE" status -c "$D/gw.conf"; }
check "status says the ways" said status
lines() { status | tee "$D/said" | grep -q 'server beyond/a, own TCP of worker 0: up' && grep -q 'server here/a, agent 0: up' "$D/said"; }
check "and where the servers are" within 10 lines
stats() {
	gw curl -s http://127.0.0.1:9900/stats | python3 -c 'import json, sys
b = {v["pool"]: v for v in json.load(sys.stdin)["backends"]}
sys.exit((b["beyond"]["way"], b["here"]["way"], b["here"]["way_why"]) != ("stack", "agent", "127.0.0.1 is on this host"))'
}
check "/stats, too" stats
take_baseline

gw ip link add aside type veth peer name asided
gw ip link set aside up
gw ip route add 10.99.0.2/32 dev aside
cl curl -s -o /dev/null -m 2 "http://$V4:8080/beyond/head"
reload() { kill -HUP "$(gateway_child)" && within 20 grep -q 'server beyond/a: '"$1" "$D/gw.log"; }
check "a reload after another route chooses again" reload 'agent: it is reached by aside, which is not configured'
check "and status shows it" within 10 eval "status | grep -q 'server beyond/a: agent: it is reached by aside'"
gw ip link del aside
: >"$D/gw.log"
check "and back" reload "stack: it is reached by $GIF"
check "without losing the server" within 30 all
finish
