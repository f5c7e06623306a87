#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 600
# lane: 2
# An address gets another place in the GID table while the gateway runs: of the gateway's device, and then of the backend's.
# Connections that are made later take the new index, for RDMA's own kind and for virtual ones.
. tests/netns/lib.sh
. tests/vm/guest/rxe-lib.sh
. tests/vm/guest/gateway-lib.sh

backend() {
    "$BUILD/echo" --listen "rdma://$rxe_server:7471,rdma+ud://$rxe_server:7471" --key-file "$D/key" >> "$D/backend.log" 2>&1 < /dev/null &
    pid_of[echo]=$!
}
answers() { [ "$(cl curl -sf --max-time 20 -d "$1" "http://$V4:8080/$1")" = "$1" ]; }
is_up() { [ "$(admin /metrics | grep -c '^sluice_backend_up{.*} '"$1")" -eq 2 ]; }
# $1: a device, $2: its address.
renumber() {
    local before after
    before=$(rxe_gid_index "$1" "$2")
    rxe_renumber "$@"
    after=$(rxe_gid_index "$1" "$2")
    echo "GID of $2: index $before, then $after"
    [ -n "$after" ] && [ "$after" -ne "$before" ]
}
both_answer() {
    check "$1: both kinds are up" within 60 is_up 1
    check "$1: a queue pair of its own answers" within 20 answers own
    check "$1: a virtual connection answers" within 20 answers virtual
}

tests/vm/guest/rxe-up.sh > "$D/rxe" || { cat "$D/rxe"; exit 1; }
arena
umask 077
head -c 32 /dev/urandom | base64 > "$D/key"
backend
gateway << CONFIG
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool own { backend echo { endpoint = "rdma://$rxe_server:7471" key_file = "$D/key" } }
pool virtual { backend echo { endpoint = "rdma+ud://$rxe_server:7471" key_file = "$D/key" } }
route "/own" { pool = own deadline = 10s }
route "/virtual" { pool = virtual deadline = 10s }
CONFIG
both_answer "at first"

check "the gateway's GID has another index" renumber rxe1 "$rxe_client"
end_process "${pid_of[echo]}" 20
check "the backend's end is seen" within 60 is_up 0
backend
both_answer "a new backend"

check "the backend's GID has another index" renumber rxe0 "$rxe_server"
check "the gateway ends" gateway_stop
gateway_start
both_answer "a new gateway"
check "the gateway ends" gateway_stop
finish
