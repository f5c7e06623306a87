#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: unary calls by both ways, in turns. Prints rows. $1: the server.
set -euo pipefail
cd "$VM_REPO"
# shellcheck source=../../tests/vm/guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh
rounds=7 enough=75 seconds=2 # a slow machine gets fewer rounds
D=$(mktemp -d) G=slg C=slc # the client's namespace; the gateway stays with rxe, in the first one
pids=()
tests/vm/guest/rxe-up.sh >/dev/null
clean_up() {
	exec 2>/dev/null
	kill -KILL "${pids[@]}" || true
	wait || true
	ip netns del $C
	tests/vm/guest/rxe-down.sh
}
trap clean_up EXIT
ip netns add $C
ip link add $G type veth peer name $C netns $C
ip address add 10.99.0.1/24 dev $G
ip -n $C address add 10.99.0.2/24 dev $C
ip link set $G up
ip -n $C link set lo up
ip -n $C link set $C up

(umask 077 && head -c 32 /dev/urandom | base64 >"$D/key")
"$1" 127.0.0.1:50051 >"$D/server.log" 2>&1 & pids+=($!)
"$BUILD/sluice" agent --listen "rdma://$rxe_server:7471,tcp://$rxe_server:7472" --to h2c://127.0.0.1:50051 --key-file "$D/key" \
	>"$D/agent.log" 2>&1 & pids+=($!)
cat >"$D/gw.conf" <<CONF
user = root
interface "$G" { }
listener web { address = "10.99.0.1" port = 8080 }
admin { port = 0 }
pool rdma { backend a { endpoint = "rdma://$rxe_server:7471" key_file = "$D/key" } }
pool tcp { backend a { endpoint = "tcp://$rxe_server:7472" key_file = "$D/key" } }
route "/" { host = {"rdma"} pool = rdma }
route "/" { host = {"tcp"} pool = tcp }
CONF
"$BUILD/sluice" run -c "$D/gw.conf" >"$D/gw.log" 2>&1 & pids+=($!)
up() { [ "$(grep -oE '(rdma|tcp)/a is up for worker' "$D/gw.log" | sort -u | wc -l)" = 2 ]; }
for _ in $(seq 200); do up && break; sleep 0.2; done
up || { cat "$D"/*.log >&2; exit 1; }
printf '# guest: Linux %s, %s, rdma_rxe over veth\n' "$(uname -r)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
grep -oE '(rdma|tcp)/a is up for .*' "$D/gw.log" | sed 's/^/# /'

printf '\0\0\0\0\5hello' >"$D/frame"
# calls WAY: calls/s, 64 at a time; an answer that is none is an end of it all
calls() {
	ip netns exec $C h2load -t1 -c4 -m16 -D$seconds --warm-up-time=1 -H ":authority: $1" -H 'content-type: application/grpc' \
		-H 'te: trailers' -d "$D/frame" http://10.99.0.1:8080/sluice.demo.Echo/Echo >"$D/out" 2>&1
	awk '/^finished in/ { rate = $4 } /^requests:/ { bad = $10 + $12 } /^traffic:/ { gsub(/[()]/, "") }
		END { if (bad || !rate) exit 1; print rate }' "$D/out" || { cat "$D/out" "$D"/*.log >&2; return 1; }
}
for ((i = 0; i < rounds && SECONDS < enough; i++)); do
	for way in rdma tcp; do
		rate=$(calls $way)
		printf 'grpc_%s_c64\t%s\tcalls/s\n' $way "$rate"
	done
done
