#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TLS on two workers: a ticket that one gave is good at the other, and what handshakes waited for their thread is counted.
. "$(dirname "$0")/../lib.sh"

arena 2
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=a.example -keyout "$D/a.key" -out "$D/a.pem" 2>/dev/null
chown "$RUN_AS" "$D/a.key" && chmod 600 "$D/a.key"
gateway <<EOC
interface $GIF { queues = {0, 1} }
workers { count = 2 }
listener safe { address = "$V4" port = 8443 tls { certificate = "$D/a.pem" key = "$D/a.key" } }
route "/" { reply = 200 body = "hello\n" }
EOC
of() { metric "sluice_tls_$2{worker=\"$1\"}"; } # WORKER NAME
is() { test "$1" "$2" "$3" || { echo "found $1, expected $2 $3"; return 1; }; }
waited() { echo $(($(of 0 waited_ns_total) + $(of 1 waited_ns_total))); }

# Each connection shows the ticket of the one before; the kernel gives each a queue of its own choice.
from=$(date +%s%N)
check_py "41 connections, all but the first by a ticket" "$V4" <<'EOP'
import socket, ssl, sys
ctx = ssl._create_unverified_context()
session = None
for i in range(41):
    with ctx.wrap_socket(socket.create_connection((sys.argv[1], 8443), 20), session=session) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        got = b""
        while not got.endswith(b"hello\n"):
            got += s.recv(4096) or sys.exit("closed")
        if s.session_reused != (i > 0):
            sys.exit(f"connection {i}: resumed is {s.session_reused}")
        session = s.session
EOP
took=$(($(date +%s%N) - from))
check "one was a full handshake" is "$(($(of 0 full_total) + $(of 1 full_total)))" -eq 1
check "the others were not" is "$(($(of 0 resumed_total) + $(of 1 resumed_total)))" -eq 40
for w in 0 1; do
	check "worker $w had some of them" is "$(of $w resumed_total)" -gt 0
	check "and two steps of each: hello and Finished" is "$(of $w steps_total)" -eq "$((2 * ($(of $w full_total) + $(of $w resumed_total))))"
	check "which waited for their thread" is "$(of $w waited_ns_total)" -gt 0
done
# One follows the other, so that no moment is counted twice.
check "no longer than all of it took" is "$(waited)" -lt "$took"
quiet=$(waited)
check "without a handshake nothing waits" eval 'cl curl -sk --max-time 10 http://$V4:8443/ >/dev/null; is "$(waited)" -eq "$quiet"'
finish
