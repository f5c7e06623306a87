# SPDX-License-Identifier: Apache-2.0
# For scripts in the guest that use the device of rxe-up.sh: source it.

# shellcheck disable=SC2034  # used by those who source this
rxe_server=10.77.0.1 rxe_client=10.77.0.2

rxe_die() { echo "rxe: $*" >&2; exit 1; }

# Index of the RoCE v2 GID that holds the IPv4 address $1.
rxe_gid_index() {
    local gid
    gid=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' ${1//./ })
    grep -lx "$gid" /sys/class/infiniband/rxe0/ports/1/gids/* | sed 's/.*\///' | sort -n | head -n 1
}

# $1: the server's command, $2: the client's. The client is started anew until the server listens.
rxe_run_pair() {
    local server_pid deadline=$((SECONDS + 60)) log
    log=$(mktemp)
    timeout 60 $1 > "$log.server" 2>&1 &
    server_pid=$!
    until timeout 60 $2 > "$log.client" 2>&1; do
        if [ $SECONDS -ge $deadline ] || ! kill -0 $server_pid 2> /dev/null; then
            kill $server_pid 2> /dev/null || true
            cat "$log.server" "$log.client" >&2
            rxe_die "failed: $2"
        fi
        sleep 0.2
    done
    wait $server_pid || rxe_die "the server failed: $1"
    cat "$log.client"
    rm -f "$log"*
}
