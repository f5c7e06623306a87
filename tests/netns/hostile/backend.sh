#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A backend that has been taken over neither answers other clients' requests nor gets their bytes: not those of its own
# pool, and not those of another one.
. "$(dirname "$0")/../lib.sh"

arena

backend more tests/netns/hostile --mode more --until "$D/go-more"
backend early tests/netns/hostile --mode early --until "$D/go-early"
backend good echo
backend other echo
gateway <<CONF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool one {
	batch { max_latency = 10s }
	backend a { endpoint = "shm://$D/more.sock" }
	backend b { endpoint = "shm://$D/good.sock" }
}
pool two {
	batch { max_latency = 10s }
	backend a { endpoint = "shm://$D/early.sock" }
	backend b { endpoint = "shm://$D/good.sock" }
}
pool other { batch { max_latency = 10s } backend o { endpoint = "shm://$D/other.sock" } }
route "/one" { pool = one idempotent = yes }
route "/two" { pool = two idempotent = yes }
route "/other" { pool = other }
CONF

# Client 1 is refused by A and answered by B. Exchanges that came free with that are client 2's when A goes on.
check_py "REFUSED with MORE: what A says later reaches nobody" "$D/more.log" "$D/go-more" <<'EOF'
import pathlib
from raw import *
log, go = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
def one():
    r = post("/one", b"client 1")
    expect("client 1", (r.status, r.body), (200, b"client 1"))
    return "refused" in log.read_text()
expect("A was asked", eventually(30, one), True)
for _ in range(8):
    one()
waiting = []
for i in range(32):
    c = Client()
    c.send(b"POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nprivate of")
    waiting.append(c)
time.sleep(0.3)
go.touch()
time.sleep(1)
for i, c in enumerate(waiting):
    c.send(b" client %02d" % i)
    r = c.reply()
    expect("client 2", (r.status, r.body), (200, b"private of client %02d" % i))
EOF

# 12 MiB exceed what A accepts at once. Bytes that client 2 sends meanwhile take the frames that become free.
check_py "refused early: A gets client 1's bytes, whenever it reads" "$D/early.log" "$D/go-early" <<'EOF'
import pathlib
from raw import *
log, go = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
def one():
    r = post("/two", b"z" * (12 << 20))
    expect("client 1", (r.status, len(r.body), r.body.count(b"z")), (200, 12 << 20, 12 << 20))
    return "refused" in log.read_text()
expect("A was asked", eventually(30, one), True)
secret = (b"SECRET of client 2 " * (1 << 20))[:12 << 20]
r = post("/other", secret)
expect("client 2", (r.status, r.body == secret), (200, True))
go.touch()
expect("A has read on", eventually(30, lambda: "read " in log.read_text()), True)
for line in log.read_text().splitlines():
    print(line)
    if line.startswith("read "):
        expect("bytes, and those that were not client 1's", line.split()[1:], [str(12 << 20), "0"])
EOF
check "the gateway lives" alive "$gateway_pid"
finish
