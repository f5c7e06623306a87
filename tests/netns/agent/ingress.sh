#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unmodified gRPC programs on two hosts: a stock client on the one with `sluice ingress`, a stock server on the one with
# `sluice agent`.
. "$(dirname "$0")/../lib.sh"

arena
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$D/key"
mkdir "$D/in" "$D/root" "$D/bin"
cp "$SLUICE" "$D/bin/sluice" # the build folder may be root's
chmod 755 "$D/bin" "$D/bin/sluice"
chown 65533:65533 "$D/in"
chown "$RUN_AS" "$D/root"
chgrp "$(id -g "$RUN_AS")" "$D/key"
chmod 640 "$D/key"
gw /usr/bin/python3 "$here/agent/grpc_server.py" 127.0.0.1:50051 >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
agent() {
	nsenter --net="/run/netns/$G" "$SLUICE" agent --listen "tcp://$V4:7471" --to h2c://127.0.0.1:50051 --key-file "$D/key" \
		>>"$D/agent.log" 2>&1 </dev/null &
	pid_of[agent]=$!
}
agent
ingress() { # LOG OPTION...: options besides --to
	local log=$1
	shift
	nsenter --net="/run/netns/$C" "${AS[@]}" "$D/bin/sluice" ingress "$@" --to "tcp://$V4:7471" --key-file "$D/key" >"$D/$log.log" 2>&1 </dev/null &
	pid_of[$log]=$!
	within 30 grep -q '^ready$' "$D/$log.log" || { cp "$D/$log.log" "$D/out"; say_failed "ingress $log does not start"; }
}
AS=()
ingress root --user "$RUN_AS" --listen "127.0.0.1:50051,[::1]:50051,unix:$D/root/root.sock"
within 30 grep -qs listening "$D/server.log" || say_failed "the server does not start"
calls() { cl timeout 200 /usr/bin/python3 "$here/agent/unmodified.py" "$1"; }
check "over TCP: calls, streams, metadata, statuses, deadlines, cancellation" calls 127.0.0.1:50051
check "over a Unix socket" calls "unix:$D/root/root.sock"
cat >"$D/more.py" <<'PY'
import grpc
from raw import expect
def target(i):
    return grpc.insecure_channel(("127.0.0.1:50051", "[::1]:50051")[i % 2], options=[("grpc.use_local_subchannel_pool", 1)])
channels = [target(i) for i in range(16)]
calls = [channels[i % 16].unary_unary("/t.S/echo").future(b"%d" % i, timeout=60) for i in range(800)]
expect("echoes", [c.result() for c in calls], [b"%d" % i for i in range(800)])
channel = channels[0]
expect("a name with _", b"x_user='me'" in channel.unary_unary("/t.S/metadata")(b"", metadata=(("x_user", "me"),)), True)
expect("the server's health", channel.unary_unary("/grpc.health.v1.Health/Check")(b"\x0a\x01x", timeout=20), b"\x08\x01\x0a\x01x")
info = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
expect("its reflection", next(info(iter([b"\x3a\x00"]), timeout=20)), b"\x12\x02\x3a\x00\x3a\x04\x08\x2a\x12\x00")
PY
check "many connections of one host; health and reflection are the server's" cl timeout 200 /usr/bin/python3 "$D/more.py"
echoes() { cl timeout 200 /usr/bin/python3 -c 'import grpc, sys
assert grpc.insecure_channel(sys.argv[1]).unary_unary("/t.S/echo")(b"x", timeout=20) == b"x"' "$1"; }
kill_backend agent
agent
check "an agent that was killed is found again" within 40 echoes 127.0.0.1:50051

# Under an account without rights, beside the other one.
AS=(setpriv --reuid 65533 --regid 65533 --groups "$(id -g "$RUN_AS")" --bounding-set=-all --inh-caps=-all)
export XDG_RUNTIME_DIR=$D/in
ingress own --listen "127.0.0.1:50052" --listen "unix:$D/in/own.sock" --to "tcp://$V4:7471" --admin "$D/in/admin.sock"
check "an account without rights serves TCP" echoes 127.0.0.1:50052
check "and another pair of addresses" echoes "unix:$D/in/own.sock"
check "status finds it" eval 'cl "$SLUICE" status --admin "$D/in/admin.sock" | grep -q "^ready"'
unset XDG_RUNTIME_DIR
ends() { end_process "${pid_of[$1]}" 30 && [ "$status" = 0 ] && unset "pid_of[$1]" && grep -q '^stopped$' "$D/$1.log"; }
check "SIGTERM ends both" eval 'ends own && ends root'
check "nothing is left" eval '[ ! -e "$D/root/root.sock" ] && [ -z "$(find "$D/in" -name gateway.conf)" ]'

# --- mistakes ---

refuses() { # TEXT OPTION...
	local text=$1
	shift
	! "$SLUICE" ingress "$@" >"$D/said" 2>&1 && cat "$D/said" && [ "$(grep -c '^sluice ingress: ' "$D/said")" = 1 ] && grep -qF "$text" "$D/said"
}
check "an address" refuses "found --listen localhost:1; allowed: ADDRESS:PORT" --listen localhost:1 --to tcp://a:1
check "an endpoint" refuses 'found endpoint = "tcp:/a"; allowed: shm:///PATH' --listen 127.0.0.1:1 --to tcp:/a
check "half a pair" refuses "found not one --listen for each --to; allowed: " --listen 127.0.0.1:1
check "a key file" refuses "found --key-file $D/none (No such file" --listen 127.0.0.1:1 --to tcp://a:1 --key-file "$D/none"
printed() { "$SLUICE" ingress --print --listen "unix:$D/it's.sock" --to tcp://a:1 >"$D/gw.conf" && "$SLUICE" check --offline -c "$D/gw.conf" && grep -qF "socket = '$D/it\\'s.sock'" "$D/gw.conf"; }
check "the configuration is printed" printed
finish
