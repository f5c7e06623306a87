#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The dashboard in a real browser (page.py): its values follow the load, in dark and light, narrow and wide.
# SL_KEEP=1 keeps the screenshots.
. "$(dirname "$0")/../lib.sh"

arena
cat >"$D/server.py" <<'END'
import http.server, random, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        time.sleep(random.expovariate(1 / .002))
        self.send_response(random.choices((200, 404, 500), (94, 4, 2))[0])
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
Server(("127.0.0.1", 9000), Handler).serve_forever()
END
gw /usr/bin/python3 "$D/server.py" >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
backend a echo --delay-us 3000
backend b echo --delay-us 4000
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 60 -subj /CN=x -addext subjectAltName=DNS:x \
	-keyout "$D/key.pem" -out "$D/cert.pem" 2>"$D/openssl.log"
chmod 600 "$D/key.pem"
gateway <<END
interface $GIF { }
listener web { address = "$V4" port = 8080 }
listener secure { address = "$V4" port = 8443 tls { certificate = "$D/cert.pem" key = "$D/key.pem" } }
pool score {
	batch { max_latency = 10s }
	backend a { endpoint = "http://127.0.0.1:9000" }
	backend b { endpoint = "shm://$D/b.sock" }
	backend gone { endpoint = "shm://$D/gone.sock" }
}
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/a.sock" } }
route "/score" { pool = score }
route "/echo" { pool = echo }
route "/get" { respond { status = 200 body = "got\n" } }
END
# As `ssh -L 9900:/run/sluice/...sock` does: the browser has the role of this account.
cat >"$D/forward.py" <<'END'
import asyncio, sys
async def pump(r, w):
    try:
        while data := await r.read(1 << 16):
            w.write(data)
            await w.drain()
    except OSError:
        pass
    finally:
        w.close()
async def forward(r, w):
    a, b = await asyncio.open_unix_connection(sys.argv[1])
    await asyncio.gather(pump(r, b), pump(a, w))
async def main():
    async with await asyncio.start_server(forward, "127.0.0.1", 9900) as s:
        await s.serve_forever()
asyncio.run(main())
END
cl /usr/bin/python3 "$D/forward.py" "/run/sluice/$GIF.sock" 2>"$D/forward.log" &
pid_of[forward]=$!
touch "$D/loaded"
load() {
	while [ -e "$D/loaded" ]; do
		cl h2load --h1 -t1 -c4 -n300 "http://$V4:8080/score/x" "http://$V4:8080/echo/x" "http://$V4:8080/get" >"$D/h2load" 2>&1
	done
}
load &
pid_of[load]=$!
is_up() { admin /stats | python3 -c 'import json, sys
sys.exit(not any((b["pool"], b["name"], b["state"]) == ("score", "b", "up") for b in json.load(sys.stdin)["workers"][0]["backends"]))'; }
down() { admin /stats | python3 -c 'import json, sys
sys.exit(not any("score/b is down" in n["text"] for n in json.load(sys.stdin)["notes"]))'; }
check "a backend is up" within 30 is_up
# The notes compare the states of two seconds, as the history does.
second() { admin /history | md5sum; }
for _ in 1 2; do
	now=$(second)
	within 30 eval '[ "$(second)" != "$now" ]'
done
kill_backend b
check "the end of a backend is noted" within 30 down
backend b echo --delay-us 4000
cl timeout 300 /usr/bin/python3 "$here/operate/page.py" http://localhost:9900/ "$D" >"$D/page.out" 2>&1
cat "$D/page.out" >"$D/out"
while read -r word text; do
	case $word in
	ok) check "$text" true ;;
	FAIL) say_failed "$text" ;;
	esac
done <"$D/page.out"
check "the page was looked at" grep -q "^ok no error of the page" "$D/page.out"
rm -f "$D/loaded"
wait "${pid_of[load]}"
unset "pid_of[load]"
check "over TCP it may look only" eval 'admin /stats | grep -q "\"may_operate\":false"'
check "a page from elsewhere changes nothing" eval \
	'cl curl -s -X POST -H "Origin: http://attacker.example" "http://localhost:9900/set?pool=score&size=1" | grep -q "foreign page"'
check "nor does one by DNS rebinding" eval 'cl curl -s -X POST -H "Origin: http://attacker.example:9900" \
	-H "Host: attacker.example:9900" "http://localhost:9900/set?pool=score&size=1" | grep -q "foreign page"'
kill_backend server
kill_backend forward
finish
