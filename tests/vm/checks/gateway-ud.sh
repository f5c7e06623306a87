#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel: stable
# timeout: 1000
# lane: 2
# The whole gateway, in its sandbox, in front of a backend that it reaches by virtual connections: killed, started again;
# and one that it reaches by such a connection until that carries enough for one of RDMA's own kind.
. tests/netns/lib.sh
. tests/vm/guest/rxe-lib.sh
. tests/vm/guest/gateway-lib.sh

backend() {
    "$BUILD/echo" --listen "rdma+ud://$rxe_server:7471" --key-file "$D/$1" >> "$D/backend.log" 2>&1 < /dev/null &
    pid_of[echo]=$!
}
answers() { [ "$(cl curl -sf --max-time 20 -d "$1" "http://$V4:8080/echo")" = "$1" ]; }
is_up() { [ "$(metric sluice_backend_up)" -eq 1 ]; }
is_down() { [ "$(metric sluice_backend_up)" -eq 0 ]; }
returns_bytes() {
    head -c "$1" /dev/urandom > "$D/body"
    cl curl -sf --max-time 100 --data-binary "@$D/body" -H 'Expect:' "http://$V4:8080/echo" | cmp - "$D/body"
}
says() { "$@" | grep 'ud rxe1'; }

tests/vm/guest/rxe-up.sh > "$D/rxe" || { cat "$D/rxe"; exit 1; }
arena
umask 077
head -c 32 /dev/urandom | base64 > "$D/key"
backend key
gateway << CONFIG
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool one {
    batch { max_latency = 10s }
    backend echo { endpoint = "rdma+ud://$rxe_server:7471" key_file = "$D/key" }
}
route "/echo" { pool = one deadline = 10s }
CONFIG
check "the backend is up" within 20 is_up
check "the status says by what" says "$SLUICE" status
check "a small body" within 20 answers hello
check "one of a megabyte" returns_bytes 1000000
kill -9 "${pid_of[echo]}"
wait "${pid_of[echo]}" 2> /dev/null
check "one that is killed is missed" within 60 is_down
backend key
check "and found where it is now" within 60 is_up
check "a small body again" within 20 answers again
kill -9 "${pid_of[echo]}"
wait "${pid_of[echo]}" 2> /dev/null
backend key
forgotten='one/echo: reconnecting worker 0 after'
found_out() { answers once || true; grep -q "$forgotten" "$D/gw.log"; }
check "one that has started again is found out" within 30 found_out
after=$(grep -o "$forgotten [0-9]*" "$D/gw.log" | grep -o '[0-9]*$')
echo "     after $after ms; silence takes 3 s"
check "and answers" within 20 answers more

# The bootstrap endpoint, until there is enough to do for a queue pair.
end_process "${pid_of[echo]}" 20
: > "$D/backend.log"
"$BUILD/echo" --listen "rdma://$rxe_server:7472,rdma+ud://$rxe_server:7472" --key-file "$D/key" >> "$D/backend.log" 2>&1 < /dev/null &
pid_of[echo]=$!
sed -i "s,endpoint = .* key_file,endpoint = \"rdma://$rxe_server:7472\" bootstrap = \"rdma+ud://$rxe_server:7472\" key_file," "$D/gw.conf"
check "the next one listens" within 60 grep -q 'serving on' "$D/backend.log"
check "a connection may begin as a virtual one" gw "$SLUICE" reload
check "it does" within 30 grep -q 'one/echo is up for worker 0: ud rxe1.*' "$D/gw.log"
check "a megabyte by that" returns_bytes 1000000
check "gets it a queue pair" within 30 grep -q 'one/echo: worker 0 switched to the primary endpoint, rdma ' "$D/gw.log"
check "which answers" within 20 answers third
check "a megabyte, too" returns_bytes 1000000
check "the sandbox has refused nothing" [ "$(grep -c 'refused system call' "$D/gw.log")" -eq 0 ]
check "the gateway ends" gateway_stop
finish
