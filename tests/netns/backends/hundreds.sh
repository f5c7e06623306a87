#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A group of as many backends as there may be: all of them get traffic, and what they cost is in proportion to how many there are.
. "$(dirname "$0")/../lib.sh"

ALL=1024
[ "${SL_SANITIZED:-}" != 1 ] || ALL=400
FEW=40
arena
mkdir "$D/crowd"
in_group "$BUILD/tests/netns/crowd" "$D/crowd" "$ALL" >"$D/crowd.log" 2>&1 </dev/null &
pid_of[crowd]=$!
within 30 grep -q "all listen" "$D/crowd.log" || say_failed "the crowd does not start"

# config FIRST LAST [NAME]: a pool of those of the crowd, as NAME0 and so on.
config() {
	gateway_config <<CONF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool crowd { batch { max_latency = 10s max_size = 16 }
$(for i in $(seq "$1" "$2"); do echo "backend ${3:-b}$i { endpoint = \"shm://$D/crowd/$i.sock\" }"; done)
}
route /echo { pool = crowd }
CONF
}
up() { [ "$(metric sluice_backend_up)" -eq "$1" ]; }
# memory LABEL: of the gateway, in bytes; printed, and left in $anon and $shared.
memory() {
	local status
	status=/proc/$(gateway_child)/status
	anon=$(awk '$1 == "RssAnon:" { print $2 * 1024 }' "$status")
	shared=$(awk '$1 == "RssShmem:" { print $2 * 1024 }' "$status")
	threads=$(awk '$1 == "Threads:" { print $2 }' "$status")
	files=$(find "/proc/$(gateway_child)/fd" | wc -l)
	echo "    $NAME: $1: $((anon >> 10)) KiB of its own, $((shared >> 10)) KiB shared with backends, $threads threads, $files descriptors"
}
load() { cl wrk -t 2 -c 64 -d "$1" --timeout 10s "http://$V4:8080/echo" >"$D/wrk" 2>&1; }
clean() {
	grep 'requests in' "$D/wrk"
	grep -q 'requests in' "$D/wrk" && ! grep -qE ' 0 requests in|Non-2xx|Socket errors' "$D/wrk" || { cat "$D/wrk"; false; }
}
# Each backend has answered; the one with most not much more often than the one with least.
all_served() {
	admin /stats | python3 -c "import json, sys
n = sorted(b['replies'] for b in json.load(sys.stdin)['workers'][0]['backends'])
print('replies of %d backends: %d to %d' % (len(n), n[0], n[-1]))
sys.exit(len(n) != $1 or n[0] == 0)"
}
reloads() { grep -c "reload: in force: " "$D/gw.log"; }
reload() {
	local before
	before=$(reloads)
	kill -HUP "$gateway_pid"
	within 30 eval '[ "$(reloads)" -gt '"$before"' ]' || { tail -n 3 "$D/gw.log"; return 1; }
}

config 0 $((FEW - 1))
gateway_start
check "$FEW backends are up" within 30 up $FEW
check "and serve" eval 'load 2s && clean && all_served $FEW'
memory "$FEW backends"
few_anon=$anon few_shared=$shared few_files=$files

config 0 $((ALL - 1))
check "a reload brings $ALL" eval 'reload && within 30 up $ALL'
check "all of them get traffic" eval 'load 4s && clean && all_served $ALL'
memory "$ALL backends"
more=$((ALL - FEW))
each=$(((anon - few_anon) / more))
ring=$(((shared - few_shared) / more))
echo "    $NAME: each of $more backends takes $((each >> 10)) KiB of memory, $((ring >> 10)) KiB of rings, and $(((files - few_files) / more)) descriptors"
[ "${SL_SANITIZED:-}" = 1 ] || check "memory grows with what is configured" [ "$each" -le $((128 << 10)) ]
check "rings of many are shorter" [ "$ring" -le $((300 << 10)) ]
check "descriptors too" [ $(((files - few_files) / more)) -le 4 ]
check "threads do not" [ "$threads" -le 80 ]

# Half of them go, and as many come with other names, while there is load.
load 60s &
wrk=$!
config 100 $((ALL - 1)) && reload && config 0 $((ALL / 2 - 1)) && reload && config 0 $((ALL - 1)) c && reload
check "three reloads under load" [ $? -eq 0 ]
check "while there was load" alive $wrk
pkill -INT -P $wrk
wait $wrk
check "lose no request" clean
check "those that have left are gone" within 30 up $ALL
check "their descriptors too" within 30 eval '[ "$(find "/proc/$(gateway_child)/fd" | wc -l)" -le $((files + 20)) ]'

config 0 1024
check "a pool of 1,025 is one line" eval '! "$SLUICE" check --offline -c "$D/gw.conf" >"$D/said" 2>&1; cat "$D/said"; [ "$(wc -l <"$D/said")" -eq 1 ] && grep -q "gw.conf:[0-9]*: found one backend too many; allowed: 1024" "$D/said"'
finish
