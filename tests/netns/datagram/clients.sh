#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Datagrams, with two workers: the C client and the Python one, every status, retries, the bound on replies, and a path
# that is narrower than the interface.
. "$(dirname "$0")/../lib.sh"
R=slr$$
spaces+=("$R")

# R sits behind C, which routes. Towards R the path takes 1000 bytes over IPv4 and 1300 over IPv6.
arena 2
"$ARENA" behind "$C" "$R" || exit 1
ip -n "$C" route replace 10.98.0.2/32 dev "${R}c" mtu lock 1000
ip -n "$C" route replace fd98::2/128 dev "${R}c" mtu lock 1300

backend echo echo
backend slow echo --delay-us 2000000
backend sleepy echo --delay-us 2000000
backend narrow echo --delay-us 300000
backend lost echo --delay-us 60000000
backend dead echo
backend fail echo --fail 507
backend parts echo --streams 3
fixed=$(printf 'x%.0s' {1..500})
gateway <<CONFIG
interface "$GIF" { queues = {0, 1} }
workers { count = 2 }
listener v4 { address = "$V4" port = 8080 protocols = {http, datagram} }
listener v6 { address = "$V6" port = 8080 protocols = {http, datagram} }
pool echo { backend a { endpoint = "shm://$D/echo.sock" } batch { max_latency = 10s } }
pool slow { backend a { endpoint = "shm://$D/slow.sock" } batch { max_latency = 10s } }
pool sleepy { backend a { endpoint = "shm://$D/sleepy.sock" } batch { policy = fixed } }
pool narrow { backend a { endpoint = "shm://$D/narrow.sock" } batch { policy = fixed } max_queue = 1 }
pool lost { backend a { endpoint = "shm://$D/lost.sock" } batch { max_latency = 10s } }
pool dead { backend a { endpoint = "shm://$D/dead.sock" } batch { max_latency = 10s } }
pool fail { backend a { endpoint = "shm://$D/fail.sock" } batch { max_latency = 10s } }
pool parts { backend a { endpoint = "shm://$D/parts.sock" } batch { max_latency = 10s } }
route "/echo" { pool = echo datagram_service = 1 }
route "/slow" { pool = slow datagram_service = 2 }
route "/sleepy" { pool = sleepy datagram_service = 3 }
route "/narrow" { pool = narrow datagram_service = 4 }
route "/lost" { pool = lost datagram_service = 5 }
route "/dead" { pool = dead datagram_service = 6 }
route "/fail" { pool = fail datagram_service = 7 }
route "/parts" { pool = parts datagram_service = 8 }
route "/fixed" { respond { status = 200 body = "$fixed" } datagram_service = 9 }
route "/little" { pool = echo max_body = 100 datagram_service = 10 }
route "/brief" { pool = sleepy deadline = 50ms datagram_service = 11 }
CONFIG
kill_backend dead

datagram() { timeout 60 "$BUILD/datagram" "$@"; }
export -f datagram
export BUILD V4 V6 here D
from_c() { cl bash -c "$1"; }

# The C client.
head -c 1400 /dev/urandom >"$D/body"
check "the C client gets its bytes back" from_c 'datagram -f $D/body $V4 8080 1 method | cmp - $D/body'
check "over IPv6, too" from_c 'datagram -f $D/body $V6 8080 1 | cmp - $D/body'
check "from stdin" from_c '[ "$(echo hi | datagram $V4 8080 1)" = hi ]'
check "ten thousand, 64 at a time" from_c 'datagram -f $D/body -n 10000 -p 64 -w 20000000 -S -q -s $V4 8080 1'
check "padded for a reply that is longer" from_c '[ "$(echo hi | datagram -R 500 $V4 8080 9)" = "'"$fixed"'" ]'
says() { from_c "! echo hi | datagram $2 $V4 8080 $3 2>$D/err && grep -q '$1' $D/err || { cat $D/err; false; }"; }
check "a status in words: reply too large" says 'reply too large' '' 9
check "a status in words: no such service" says 'no such service' '' 99
check "a code of the backend" says 'code 507' '' 7
head -c 1500 /dev/zero >"$D/large"
check "it does not send what the path cannot take" from_c \
	'! datagram -f $D/large $V4 8080 1 2>$D/err && grep -q "at most 1448" $D/err'
check "nobody there" from_c '! echo hi | datagram -w 300000 $V4 8081 1 2>$D/err && grep -q "no reply" $D/err'

# Through a relay that loses every third datagram in each direction, and doubles others.
cat >"$D/relay.py" <<'EOF'
import random, select, socket, sys
near, far = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
near.bind(("127.0.0.1", 9000))
far.connect((sys.argv[1], 8080))
open(sys.argv[2], "w").close()
random.seed(1)
while True:
    for s in select.select([near, far], [], [])[0]:
        if s is near:
            d, client = near.recvfrom(2000)
        else:
            d = far.recv(2000)
        for _ in range(random.choice([0, 0, 1, 1, 1, 2])):
            far.send(d) if s is near else near.sendto(d, client)
EOF
nsenter --net="/run/netns/$C" python3 "$D/relay.py" "$V4" "$D/relaying" 9>&- &
pid_of[relay]=$!
check "a lossy relay" within 30 test -e "$D/relaying"
carried_out() { stat_sum core.outcomes.ok; }
before=$(carried_out)
check "150 over it" from_c 'echo hi | datagram -n 150 -p 32 -t 20000 -w 20000000 -S -q -s 127.0.0.1 9000 1 2>$D/relayed'
check "some of them with retries" grep -qE 'retried [1-9]' "$D/relayed"
check "each carried out once" eval 'n=$(($(carried_out) - before)); echo $n; [ $n -eq 150 ]'

# The Python client.
check "the Python example, as a program" from_c '[ "$(echo hi | python3 $here/datagram_client.py $V4 8080 1)" = hi ]'
check "and over IPv6" from_c '[ "$(echo hi | python3 $here/datagram_client.py $V6 8080 1 name)" = hi ]'
check_py "each status has its reason" "$V4" "${pid_of[lost]}" <<'EOF'
import os, signal, sys, time
from datagram_client import *
c = Client(sys.argv[1], 8080)
def expect(status, code, *args, **kw):
    r = c.ask(*args, **kw)
    assert (r.status, r.code) == (status, code), r
    assert status == Status.OK or r.payload == b"", r
    return r
assert expect(Status.OK, 200, 1, b"hi").payload == b"hi"
assert expect(Status.OK, 200, 1, b"").payload == b""
expect(Status.OK, 507, 7, b"hi")
expect(Status.VERSION, 0, 1, b"hi", version=2)
expect(Status.NO_SERVICE, 0, 99, b"hi")
expect(Status.OK, 200, 10, bytes(100))
expect(Status.TOO_LARGE, 0, 10, bytes(101))
expect(Status.REPLY_TOO_LARGE, 0, 9, b"hi")
expect(Status.REPLY_TOO_LARGE, 0, 8, b"hi", reply_len=1000)
expect(Status.UNAVAILABLE, 0, 6, b"hi")
expect(Status.EXPIRED, 0, 3, b"hi", deadline_us=50000)
expect(Status.EXPIRED, 0, 11, b"hi")
expect(Status.OK, 200, 3, b"hi", deadline_us=60000000)
id = 7
c.send(encode(5, b"hi", id=id))
time.sleep(0.5)
os.kill(int(sys.argv[2]), signal.SIGKILL)
r = c.receive(id, 20)
assert r and r.status == Status.UNAVAILABLE, r
EOF
check_py "overload is told as such, and may be tried again with the same id" "$V4" <<'EOF'
import sys
from datagram_client import *
c = Client(sys.argv[1], 8080)
for id in range(1, 13):
    c.send(encode(4, b"hi", id=id))
got = {}
while len(got) < 12:
    d = c.socket.recv(2000)
    id = HEAD.unpack_from(d)[4]
    got[id] = decode(d, id).status
refused = [id for id in got if got[id] == Status.OVERLOADED]
assert refused and Status.OK in got.values() and set(got.values()) == {Status.OK, Status.OVERLOADED}, got
c.send(encode(4, b"hi", id=refused[0]))
assert c.receive(refused[0], 20).status == Status.OK
EOF
before=$(carried_out)
check_py "retries: dropped while it is worked on, then the same reply again" "$V4" <<'EOF'
import sys
from datagram_client import *
c = Client(sys.argv[1], 8080)
rq = encode(2, bytes(1400), id=1)
for _ in range(5):
    c.send(rq)
first = c.socket.recv(2000)
assert decode(first, 1).payload == bytes(1400)
assert c.receive(1, 1) is None  # one reply to five
c.send(rq)
c.socket.settimeout(20)
assert c.socket.recv(2000) == first
c.send(encode(2, b"", id=1))  # shorter than what it would fetch
r = c.receive(1, 20)
assert r and r.status == Status.REPLY_TOO_LARGE and r.payload == b"", r
other = Client(sys.argv[1], 8080)  # the id is the sender's own
other.send(encode(2, b"mine", id=1))
assert other.receive(1, 20).payload == b"mine"
EOF
check "which was carried out once for each of them" eval '[ $(($(carried_out) - before)) -eq 2 ]'
check "the shorter one is counted" eval 'admin /metrics | grep -E "dgram_amplify.* [1-9]"'
check "retries are counted" eval 'admin /metrics | grep -E "dgram_duplicate.* [1-9]"'
check_py "no reply is larger than what asked for it" "$V4" "$V6" <<'EOF'
import sys
from datagram_client import *
for host in sys.argv[1:]:
    c = Client(host, 8080)
    c.socket.settimeout(20)
    for service in 1, 7, 8, 9, 10, 99:
        for n in [0, 1, 8, 9, 100, 475, 476, 499, 500, 501, 1400]:
            for rq in encode(service, bytes(n)), encode(service, b"", reply_len=n), encode(service, version=3):
                c.send(rq)
                d = c.socket.recv(2000)
                assert len(d) <= len(rq), (service, n, len(rq), len(d))
                status = HEAD.unpack_from(d)[3]
                if service == 9 and rq[4] == VERSION:
                    assert (status == Status.OK) == (len(rq) >= HEAD.size + 500), (n, status)
    # what is no request gets nothing
    good = encode(1, b"hi", id=5)
    for bad in (b"", good[:23], good[:-1], b"X" + good[1:], good[:5] + b"\2" + good[6:], good[:6] + b"\0\0" + good[8:]):
        c.send(bad)
    assert c.receive(5, 0.5) is None
EOF
check "what is no request is counted" within 10 eval '[ "$(admin /metrics | awk "/dgram_malformed/ { n += \$NF } END { print n }")" -eq 12 ]'

# Replies over the narrow path: the first is lost, what its ICMP error says is remembered.
cat >"$D/narrow.py" <<'EOF'
import sys
from datagram_client import *
full = int(sys.argv[2])  # largest payload of a reply on the path
for _ in range(8):  # of either worker, whichever of them gets the error
    c = Client(sys.argv[1], 8080)
    assert c.ask(1, bytes(full)).payload == bytes(full)  # as wide as it is, and nobody has to be told
    for n in 1400, full + 1:
        r = c.ask(1, bytes(n), seconds=10)
        assert r.status == Status.REPLY_TOO_LARGE, r
    assert c.ask(1, bytes(full)).payload == bytes(full)
EOF
narrow() { nsenter --net="/run/netns/$R" timeout 60 python3 "$D/narrow.py" "$@"; }
check "a path of 1000 bytes is learnt" narrow "$V4" 948
check "and one of 1300 over IPv6" narrow "$V6" 1228
check "another destination is as wide as before" from_c 'datagram -f $D/body $V4 8080 1 | cmp - $D/body'

finish
