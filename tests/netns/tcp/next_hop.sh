#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Connections and datagrams follow a client whose next hop gets another MAC address, as in a router failover.
. "$(dirname "$0")/../lib.sh"

arena
backend echo echo
gateway <<EOC
interface $GIF { }
listener l { port = 8080 protocols = {http, datagram} }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/" { pool = echo datagram_service = 1 }
EOC
changes() { metric sluice_worker_nexthop_changes_total; }

cat >"$D/follow.py" <<'EOF'
import socket, subprocess, sys
import datagram_client

family, address, interface = sys.argv[1], sys.argv[2], sys.argv[3]
number = 0

def new_mac():
    """The old MAC is not the client's any more: its kernel ignores frames for it."""
    global number
    number += 1
    subprocess.run(["ip", "link", "set", interface, "address", f"02:00:00:00:{family}:{number:02x}"], check=True)

def connect():
    return socket.create_connection((address, 8080), 20)

def head(size):
    return f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n".encode()

def reply(s):
    data = b""
    while b"\r\n\r\n" not in data:
        data += s.recv(65536)
    first, body = data.split(b"\r\n\r\n", 1)
    size = int([line for line in first.lower().split(b"\r\n") if line.startswith(b"content-length")][0].split(b":")[1])
    while len(body) < size:
        more = s.recv(65536)
        assert more, "closed"
        body += more
    return body

def exchange(s, body):
    s.sendall(head(len(body)) + body)
    return reply(s)

idle = connect()
assert exchange(idle, b"first") == b"first"
new_mac()
assert exchange(idle, b"second") == b"second"
print("idle connection")

body = bytes(range(256)) * 16384
upload = connect()
upload.sendall(head(len(body)) + body[:100000])
new_mac()
upload.sendall(body[100000:])
print("upload")

# The reply of 4 MiB begins; the client then sends acknowledgements only.
data = upload.recv(1000)
while b"\r\n\r\n" not in data:
    data += upload.recv(1000)
new_mac()
data = data.split(b"\r\n\r\n", 1)[1]
while len(data) < len(body):
    more = upload.recv(65536)
    assert more, "closed"
    data += more
assert data == body
print("download")

# Datagrams of one socket, before and behind the change.
datagrams = datagram_client.Client(address, 8080)
for request in (b"before", b"behind"):
    assert datagrams.ask(1, request, seconds=20).payload == request
    new_mac()
print("datagrams")
EOF
follows() { cl timeout 200 python3 "$D/follow.py" "$1" "$2" "$CIF"; }
check "IPv4: idle, uploading and downloading connections, datagrams" follows 04 "$V4"
check "IPv6: idle, uploading and downloading connections, datagrams" follows 06 "$V6"
check "changes are counted" [ "$(changes)" -ge 6 ]
finish
