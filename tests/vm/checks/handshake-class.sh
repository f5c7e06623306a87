#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# pclmul: yes
# timeout: 1200
# lane: 2
# A flood of handshakes: the thread that has spent its credit lets all others go first (SCHED_IDLE); where these leave it
# nothing, it is owed its part and takes it beside them, so that newcomers get their turn. Here, as it takes a limit of nice
# that not every container can have.
set -euo pipefail
. tests/vm/guest/path-lib.sh

path_up 10.78.0.1 10.78.0.2
ip -n $path_cl addr add 10.78.0.3/24 dev eth0 # a newcomer's
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=a.example -keyout "$dir/a.key" -out "$dir/a.pem" 2> /dev/null
chmod 600 "$dir/a.key"
cat > "$dir/gw.conf" << CONFIG
user = "root"
interface eth0 { }
workers { cpus = {0} }
listener safe { address = "10.78.0.1" port = 8443 tls { certificate = "$dir/a.pem" key = "$dir/a.key" } }
route "/" { respond { status = 200 body = "hello\n" } }
CONFIG
path_gateway
task=$(grep -l '^handshake' "/proc/$(pgrep -P "${pids[-1]}" sluice)"/task/*/comm)
task=${task%/comm}
taskset -pc 0 "${task##*/}"
# The policy of sched(7), 0 is SCHED_OTHER and 5 SCHED_IDLE: the 41st field, of which 2 stand in front of the name's end.
is_seen() {
    timeout 200 python3 -c '
import sys, time
while int(open(sys.argv[1]).read().rpartition(")")[2].split()[38]) != int(sys.argv[2]):
    time.sleep(0.001)' "$task/stat" "$1" || path_fail "$2"
}
is_newcomer_served() {
    [ "$(ip netns exec $path_cl curl -sSk --interface 10.78.0.3 --max-time 60 https://10.78.0.1:8443/)" = hello ] || path_fail "a newcomer gets no turn"
}

is_newcomer_served
ip netns exec $path_cl taskset -c 1 "$BUILD/tests/netns/hello" 10.78.0.1 8443 200 1024 > "$dir/hello.log" &
pids+=($!)
is_seen 5 "the thread goes on beside all others"
is_newcomer_served
taskset -c 0 bash -c 'while :; do :; done' &
pids+=($!)
is_seen 0 "the thread is not given what it is owed"
is_newcomer_served
kill "${pids[-1]}"
is_seen 5 "the thread keeps its place beside all others"
