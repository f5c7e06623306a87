#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TLS on two workers and two handshake threads: a ticket of one is valid at the other; waits for a handshake thread are
# counted; replayed bytes of a client are worthless at both.
. "$(dirname "$0")/../lib.sh"

arena 2
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=a.example -keyout "$D/a.key" -out "$D/a.pem" 2>/dev/null
chown "$RUN_AS" "$D/a.key" && chmod 600 "$D/a.key"
gateway <<EOC
interface $GIF { queues = {0, 1} }
workers { count = 2 }
listener safe { address = "$V4" port = 8443 tls { certificate = "$D/a.pem" key = "$D/a.key" handshake_threads = 2 } }
listener single { address = "$V4" port = 8444 tls { certificate = "$D/a.pem" key = "$D/a.key" } }
route "/" { respond { status = 200 body = "hello\n" } }
EOC
of() { metric "sluice_tls_$2{worker=\"$1\"}"; } # WORKER NAME
is() { test "$1" "$2" "$3" || { echo "found $1, expected $2 $3"; return 1; }; }
waited_of() { admin /metrics | awk -v p="sluice_tls_waited_seconds_total{worker=\"$1\"}" 'index($0, p) == 1 { printf "%.0f\n", $NF * 1e9 }'; } # in ns
waited() { echo $(($(waited_of 0) + $(waited_of 1))); }
spent() { cut -d ' ' -f 1 "$(grep -lx "handshake-$1" "/proc/$(gateway_child)"/task/*/comm | sed 's/comm$/schedstat/')"; } # ns, of thread $1

at_first=("$(spent 0)" "$(spent 1)")
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
	check "which waited for their thread" is "$(waited_of $w)" -gt 0
done
# One follows the other, so that no moment is counted twice.
check "no longer than all of it took" is "$(waited)" -lt "$took"
quiet=$(waited)
check "without a handshake nothing waits" eval 'cl curl -sk --max-time 10 http://$V4:8443/ >/dev/null; is "$(waited)" -eq "$quiet"'
for t in 0 1; do
	check "thread $t had some of them" is "$(spent $t)" -gt "${at_first[$t]}"
done

# A listener keeps to as many threads as it was given, though there are more.
seen=("$(spent 0)" "$(spent 1)")
twenty() { for _ in {1..20}; do cl curl -sfk --max-time 10 "https://$V4:8444/" >/dev/null || return 1; done; }
check "20 handshakes at a listener with one thread" twenty
check "are thread 0's" is "$(spent 0)" -gt "${seen[0]}"
check "and not thread 1's" is "$(spent 1)" -eq "${seen[1]}"

# The flight of a client, all of it: ClientHello with a ticket, Finished, the request. A second server random makes other keys.
answered=$(metric sluice_requests_total)
check_py "a flight that is said again gets an alert, at once or step by step, and no reply" "$V4" <<'EOP'
import socket, ssl, sys
ctx = ssl._create_unverified_context()


class Talk:
    """A connection whose client's bytes are kept: one list entry for each flight."""

    def __init__(self, session):
        self.sock = socket.create_connection((sys.argv[1], 8443), 20)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = ctx.wrap_bio(self.incoming, self.outgoing, session=session)
        self.flights = []

    def until(self, step):
        while True:
            try:
                got = step()
            except ssl.SSLWantReadError:
                got = None
            out = self.outgoing.read()
            if out:
                self.flights.append(out)
                self.sock.sendall(out)
            if got is not None:
                return got
            self.incoming.write(self.sock.recv(65536) or sys.exit("closed"))


def talk(session):
    t = Talk(session)
    t.until(lambda: t.tls.do_handshake() or True)
    t.until(lambda: t.tls.write(b"POST /once HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"))
    got = b""
    while not got.endswith(b"hello\n"):
        got += t.until(lambda: t.tls.read(4096))
    return t


def replay(flights, at_once):
    """The types of the records that come back, and the last one's length."""
    got = b""
    with socket.create_connection((sys.argv[1], 8443), 20) as s:
        s.sendall(b"".join(flights) if at_once else flights[0])
        if not at_once:
            got = s.recv(65536)
            for f in flights[1:]:
                s.sendall(f)
        try:
            while more := s.recv(65536):
                got += more
        except ConnectionResetError:
            pass
    kinds = []
    while got:
        size = int.from_bytes(got[3:5], "big")
        kinds.append((got[0], size))
        got = got[5 + size :]
    return kinds


first = talk(None)
again = talk(first.tls.session)
if not again.tls.session_reused:
    sys.exit("the ticket was not taken")
for i in range(20):
    kinds = replay(again.flights, i % 2)
    # ServerHello, its change of cipher, EncryptedExtensions and Finished, and the alert, sealed: 2 + 1 + 16.
    if kinds[0][0] != 22 or kinds[-1] != (23, 19):
        sys.exit(f"replay {i}: {kinds}")
EOP
check "only what was said first was answered" is "$(metric sluice_requests_total)" -eq "$((answered + 2))"
check "the others ended with a tag that is wrong" is "$(($(metric 'sluice_tls_ends_total{worker="0",reason="bad_record_mac"}') + $(metric 'sluice_tls_ends_total{worker="1",reason="bad_record_mac"}')))" -eq 20
finish
