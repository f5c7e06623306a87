#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients in Python without a gateway (sluice.Client, sluice.AsyncClient), over shared memory and TCP.
. "$(dirname "$0")/../lib.sh"

export PYTHONPATH=$BUILD/python
head -c 32 /dev/urandom >"$D/key"
chmod 600 "$D/key"
arena
start() { # NAME ENDPOINT [KEY_FILE]
	env "${SANITIZED_PYTHON[@]}" ip netns exec "$G" /usr/bin/python3 "$here/backends/called.py" "${@:2}" >"$D/$1.log" 2>&1 &
	pid_of[$1]=$!
}
calls() { env "${SANITIZED_PYTHON[@]}" ip netns exec "$G" timeout 90 /usr/bin/python3 "$here/backends/calls.py" "$@"; }

start shm "shm://$D/shm.sock"
start tcp tcp://127.0.0.1:7471 "$D/key"
for name in call batch streams threads interrupt asyncio_; do
	check "$name over shared memory" calls "$name" "shm://$D/shm.sock"
	check "$name over TCP" calls "$name" tcp://127.0.0.1:7471 "$D/key"
done
check "a missing server is named" calls absent ''
head -c 32 /dev/urandom >"$D/other"
chmod 600 "$D/other"
check "a key that differs gives one line" eval \
	'WAIT_S=1 calls call tcp://127.0.0.1:7471 "$D/other" 2>&1 | tail -n 1 | tee /dev/stderr | grep -q "CallError.*127.0.0.1:7471.*key"'
finish
