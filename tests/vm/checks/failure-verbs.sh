#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1200
# lane: 2
# Under load over RDMA, with a second backend over shared memory: the cable is cut and joined, the backend is killed and
# comes back. Every request is answered, none waits in vain, and the RDMA backend is used again each time. Then the only
# way is cut: errors are clear and come in time, and service resumes.
. tests/netns/lib.sh
. tests/vm/guest/rxe-lib.sh
. tests/vm/guest/gateway-lib.sh

# $1: name, $2: endpoint.
backend() {
    "$BUILD/echo" --listen "$2" --key-file "$D/key" >> "$D/$1.log" 2>&1 < /dev/null &
    pid_of[$1]=$!
}

# $1: name of a metric, $2: labels of its sample.
metric_of() { admin /metrics | sed -n "s/^$1{\(.*,\)\{0,1\}$2.*} //p" | head -n 1; }
# The RDMA backend of pool $1.
is_up() { [ "$(metric_of sluice_backend_up "pool=\"$1\",backend=\"far\"")" -eq 1 ]; }
is_down() { [ "$(metric_of sluice_backend_up "pool=\"$1\",backend=\"far\"")" -eq 0 ]; }
replies() { metric_of sluice_backend_replies_total 'pool="two",backend="far"'; }
replied_since() { [ "$(replies)" -gt "$1" ]; }
answers() { [ "$(cl curl -sf --max-time 5 -d "$1" "http://$V4:8080/$2")" = "$1" ]; }

# Load on path $1, in the background; no request may take $2 seconds. A pause before each request leaves CPU time of the
# emulation to the gateway's recovery and to this check.
load() {
    echo 'function delay() return 100 end' > "$D/pause.lua"
    nsenter --net="/run/netns/$C" wrk -t1 -c4 -d600s --timeout "$2s" -s "$D/pause.lua" "http://$V4:8080/$1" \
        > "$D/wrk" 2>&1 &
    wrk_pid=$!
    rm -f "$D/seen"
    nsenter --net="/run/netns/$C" \
        python3 tests/vm/guest/ask.py "$V4:8080" "/$1" "$2" "$D/seen" > "$D/asked" 2>&1 &
    asker_pid=$!
}
load_ends() {
    kill -INT $wrk_pid
    kill -TERM $asker_pid
    wait $wrk_pid $asker_pid
}
show() { cat "$D/asked" "$D/wrk"; }
# Whether answers came, and none that does not match the expression $1.
came() {
    show
    grep -qx '[0-9]* [0-9]*' "$D/asked" && ! grep -qvxE "($1) [0-9]+" "$D/asked"
}
all_answered() { came 200 && ! grep -q 'Non-2xx\|Socket errors' "$D/wrk"; }

tests/vm/guest/rxe-up.sh > "$D/rxe" || { cat "$D/rxe"; exit 1; }
arena
umask 077
head -c 32 /dev/urandom | base64 > "$D/key"
backend far "rdma://$rxe_server:7471"
backend near "shm://$D/near.sock"
gateway << CONFIG
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool two {
    batch { max_latency = 10s }
    backend far { endpoint = "rdma://$rxe_server:7471" key_file = "$D/key" }
    backend near { endpoint = "shm://$D/near.sock" }
}
pool one {
    batch { max_latency = 3s }
    backend far { endpoint = "rdma://$rxe_server:7471" key_file = "$D/key" }
}
route "/two" { pool = two deadline = 12s idempotent = yes }
route "/one" { pool = one deadline = 3s }
CONFIG
check "both ways are up" within 20 is_up two
check "the other pool's too" within 20 is_up one

load two 20
check "RDMA is used" within 20 replied_since 0
rxe_cut
check "a cut cable is noticed" within 20 is_down two
rxe_mend
check "mended, the backend is up again" within 20 is_up two
before=$(replies)
check "and used" within 20 replied_since "$before"
load_ends
check "every request was answered" all_answered

before=$(replies)
load two 20
check "both ways are used again" within 20 replied_since "$before"
kill_backend far
check "a killed backend is noticed" within 10 is_down two
backend far "rdma://$rxe_server:7471"
check "started again, it is up" within 20 is_up two
before=$(replies)
check "and used" within 20 replied_since "$before"
load_ends
check "every request was answered" all_answered

check "the only way answers" within 20 answers hello one
load one 15
check "and those who ask again and again" within 20 grep -q '^200$' "$D/seen"
rxe_cut
check "its loss is noticed" within 20 is_down one
check "there are errors" within 20 grep -q '^50[234]$' "$D/seen"
rxe_mend
check "and its return" within 20 is_up one
load_ends
check "without another way errors are clear and come in time" came '200|502|503|504'
check "service resumes" within 20 answers again one
finish
