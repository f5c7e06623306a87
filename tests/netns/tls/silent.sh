#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Connections that bring records without data, or parts of records, end by the time-outs of the layer above.
. "$(dirname "$0")/../lib.sh"

arena
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=a.example -keyout "$D/a.key" -out "$D/a.pem" 2>/dev/null
chown "$RUN_AS" "$D/a.key" && chmod 600 "$D/a.key"
gateway <<EOC
interface $GIF { }
listener safe { address = "$V4" port = 8443 tls { certificate = "$D/a.pem" key = "$D/a.key" } }
route "/" { respond { status = 200 body = "hello\n" } }
limits { idle_timeout = 5s header_timeout = 5s }
EOC

# TLS between two memories, so that parts of records can be sent.
cat >"$D/silent.py" <<'PY'
from raw import *
import ssl
def ends(protocol, asks_first, say):
    """Whether the gateway closes a connection on which `say` brings bytes every 300 ms, for 60 s at most."""
    ctx = ssl._create_unverified_context()
    ctx.set_alpn_protocols([protocol])
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls, s = ctx.wrap_bio(into, out), connect(port=8443)
    def step(call):
        while True:
            try:
                return call()
            except ssl.SSLWantReadError:
                s.sendall(out.read())
                got = s.recv(65536)
                if not got:
                    raise ConnectionError("closed")
                into.write(got)
    step(tls.do_handshake)
    tls.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" if asks_first else b"")
    s.sendall(out.read())
    if asks_first:
        got = b""
        while not got.endswith(b"hello\n"):
            got += step(lambda: tls.read(4096))
    s.setblocking(False)
    end = time.time() + 60
    sent = 0
    while time.time() < end:
        try:
            s.sendall(say(tls, out, sent))
            sent += 1
            if not s.recv(4096):
                return True
        except BlockingIOError:
            pass
        except OSError:
            return True
        time.sleep(0.3)
    return False
def nothing(tls, out, sent):
    return b""
def part(tls, out, sent):
    """A byte of a record that is never whole."""
    return (b"\x17\x03\x03\x10\x00" + b"x" * 4000)[sent:sent + 1]
expect("idle", ends("http/1.1", True, nothing), True)
expect("idle without a request", ends("http/1.1", False, nothing), True)
expect("a record that does not end", ends("http/1.1", True, part), True)
expect("a first record that does not end", ends("http/1.1", False, part), True)
PY
check "each of them ends" cl timeout 300 python3 "$D/silent.py"
finish
