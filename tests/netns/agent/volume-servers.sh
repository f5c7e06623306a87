#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume
# Bodies of 0 to 64 MiB through an agent to each server of others, byte for byte: replies of all six, requests to all but Python's
# http.server, which takes none.
. "$(dirname "$0")/../lib.sh"

arena
. "$here/agent/servers_of_others.bash"

gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
limits { max_body = 64m address_frames = 1 }
memory { frames = 512m }
$(server_pools)
agents { count = 2 }
CONF

cat >"$D/sizes.py" <<'PY'
import hashlib

sizes = (0, 1, 65535, 65537, (1 << 20) + 1, 64 << 20)

def pattern(n):
    return (bytes(range(256)) * (n // 256 + 1))[:n]

def sha(body):
    return hashlib.sha256(body).hexdigest()
PY

for n in 0 1 65535 65537 1048577 67108864; do
	head -c $n /dev/urandom >"$D/www/of-$n"
done
chmod a+r "$D"/www/of-*
for s in nginx apache python; do
	check_py "$s: files of 0 to 64 MiB" $s <<'PY'
from raw import *
from sizes import *
import os, sys
www = os.path.dirname(os.path.abspath(__file__)) + "/www/"
for n in sizes:
    want = open(f"{www}of-{n}", "rb").read()
    r = get(f"/{sys.argv[1]}/of-{n}")
    expect(f"{n} bytes", (r.status, len(r.body), sha(r.body)), (200, n, sha(want)))
PY
done
for s in nginx apache; do
	check_py "$s: bodies of 0 to 64 MiB are put" $s <<'PY'
from raw import *
from sizes import *
import os, sys
www = os.path.dirname(os.path.abspath(__file__)) + "/www/put/"
for n in sizes:
    name, body = f"{sys.argv[1]}-{n}", os.urandom(n)
    r = ask(f"PUT /{sys.argv[1]}/put/{name} HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\n\r\n".encode() + body)
    expect(f"{n} bytes", (r.status, sha(open(www + name, "rb").read())), (201, sha(body)))
PY
done
for s in node gunicorn uvicorn; do
	check_py "$s: bodies of 0 to 64 MiB both ways" $s <<'PY'
from raw import *
from sizes import *
import os, sys
for n in sizes:
    body = os.urandom(n)
    r = post(f"/{sys.argv[1]}/sum?n", body)
    expect(f"{n} bytes there", (r.status, r.body.decode()), (200, sha(body) + " x n"))
    r = get(f"/{sys.argv[1]}/bytes?{n}")
    expect(f"{n} bytes back", (r.status, len(r.body), sha(r.body)), (200, n, sha(pattern(n))))
PY
done

finish
