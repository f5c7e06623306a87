#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# soak: `make soak`, some ten minutes
# Two workers on two queues: SOAK (20000) TLS connections, each a WebSocket that an unmodified server echoes. No echo is
# missing, no connection is cut, and no sender had data to send without a timer.
. "$(dirname "$0")/../lib.sh"

arena 2
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=a.example -keyout "$D/a.key" -out "$D/a.pem" 2>/dev/null
chown "$RUN_AS" "$D/a.key" && chmod 600 "$D/a.key"
gw /usr/bin/python3 "$here/agent/upgrade_server.py" 127.0.0.1 8000 8001 >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || { cp "$D/server.log" "$D/out"; say_failed "the server does not start"; }
gateway <<EOC
interface $GIF { queues = {0, 1} }
workers { count = 2 }
listener safe { address = "$V4" port = 8443 tls { certificate = "$D/a.pem" key = "$D/a.key" } }
pool stock { backend a { endpoint = "http://127.0.0.1:8000" } }
route "/" { pool = stock }
EOC

cat >"$D/soak.py" <<'EOP'
import asyncio, os, random, ssl, subprocess, sys, time
import websockets

host, total, abreast, late_s = sys.argv[1], int(sys.argv[2]), 40, 5
tls = ssl._create_unverified_context()
pattern = os.urandom(200 << 10)
done, late, lost = 0, [], []

def show(ws):
    port = ws.transport.get_extra_info("sockname")[1]
    print(subprocess.run(["ss", "-tino", f"sport = :{port}"], capture_output=True, text=True).stdout, flush=True)

async def talk(rng):
    async with websockets.connect(f"wss://{host}:8443/stock", ssl=tls, max_size=None, ping_interval=None,
                                  compression=None, open_timeout=60) as ws:
        for _ in range(rng.randint(1, 6)):
            start = rng.randrange(100 << 10)
            message = pattern[start:start + int(2 ** rng.uniform(0, 16.6))]
            await ws.send(message)
            echo = asyncio.ensure_future(ws.recv())
            if not (await asyncio.wait({echo}, timeout=late_s))[0]:
                late.append(len(message))
                show(ws)
            if await echo != message:
                raise ValueError("another echo")

async def series(i):
    global done
    rng = random.Random(i)
    while done + len(lost) < total:
        try:
            await talk(rng)
            done += 1
        except Exception as e:
            lost.append(f"{type(e).__name__}: {e}")
            print(lost[-1], flush=True)
        if (done + len(lost)) % 1000 == 0:
            print(f"{done} of {total} connections, {len(lost)} lost, {len(late)} late, {time.monotonic() - began:.0f} s", flush=True)

async def main():
    await asyncio.gather(*map(series, range(abreast)))

began = time.monotonic()
asyncio.run(main())
print(f"{done} connections, {len(lost)} lost, echoes later than {late_s} s: {len(late)}")
sys.exit(bool(lost))
EOP
soak() {
	cl timeout 7200 /usr/bin/python3 "$D/soak.py" "$V4" "${SOAK:-20000}" 2>&1 | tee "$D/soak.log" >"${SOAK_LOG:-/dev/null}"
	tail -n 20 "$D/soak.log"
	return "${PIPESTATUS[0]}"
}
is() { test "$1" "$2" "$3" || { echo "found $1, expected $2 $3"; return 1; }; }
check "${SOAK:-20000} connections get each echo" soak
check "both workers had some of them" eval 'is "$(metric "sluice_tls_full_total{worker=\"0\"}")" -gt 0 && is "$(metric "sluice_tls_full_total{worker=\"1\"}")" -gt 0'
check "no sender had data without a timer" is "$(metric sluice_broken_checks_total)" -eq 0
check "no connection was cut for silence" is "$(metric sluice_clients_timed_out_total)" -eq 0
gateway_end
finish
