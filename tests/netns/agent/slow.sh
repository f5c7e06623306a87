#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Memory of the agent and of the gateway: clients that do not read large replies, and a server that does not read large
# requests; of unary calls and of streams. Others are served meanwhile, though there are more of them than the agent gives
# the server at a time. The server is a stock nginx, with HTTP/1.1 and h2c; /deaf leads it to a socket that never accepts.
. "$(dirname "$0")/../lib.sh"

arena
# The kernel's buffers do not count here, and take time to fill.
gw sysctl -qw net.ipv4.tcp_wmem="4096 65536 65536" net.ipv4.tcp_rmem="4096 65536 65536"
mkdir "$D/www" && head -c 48000000 /dev/zero >"$D/www/large" && echo hello >"$D/www/hello" && chmod -R a+rX "$D/www"
listens() { # 8000 + SERVER is nginx's
	cat <<CONF
server { listen 127.0.0.1:$1; root $D/www; client_max_body_size 0; location /deaf { proxy_pass http://127.0.0.1:9000;
	proxy_http_version 1.1; proxy_request_buffering off; proxy_read_timeout 600s; proxy_send_timeout 600s; } }
CONF
}
cat >"$D/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $D/nginx.pid; error_log $D/nginx.err;
events { worker_connections 1024; }
http { access_log off; send_timeout 600s; client_body_timeout 600s; client_body_temp_path $D/nb; proxy_temp_path $D/np;
	fastcgi_temp_path $D/nf; uwsgi_temp_path $D/nu; scgi_temp_path $D/ns;
	$(listens 8001) $(listens "8002 http2") }
CONF
gw python3 -c '
import socket, time
s = socket.create_server(("127.0.0.1", 9000), backlog=1024)
time.sleep(1000)' &
pid_of[deaf]=$!
gw nginx -c "$D/nginx.conf" >"$D/nginx.out" 2>&1 </dev/null &
pid_of[nginx]=$!
# One agent for each case, whose memory has not grown for another reason.
cases=(http-reads http-reads-stream http-sends http-sends-stream h2c-reads h2c-reads-stream h2c-sends h2c-sends-stream)
pools() {
	local c stream
	for c in "${cases[@]}"; do
		[[ $c == *-stream ]] && stream=yes || stream=no
		printf 'pool %s { batch { policy = direct } backend a { endpoint = "shm://%s/%s.sock" } }\n' "$c" "$D" "$c"
		printf 'route "/%s" { pool = %s stream = %s strip_prefix = yes }\n' "$c" "$c" $stream
	done
}
for c in "${cases[@]}"; do
	[[ $c == http-* ]] && to=http://127.0.0.1:8001 || to=h2c://127.0.0.1:8002
	in_group nsenter --net="/run/netns/$G" "$SLUICE" agent --listen "shm://$D/$c.sock" --to "$to" >"$D/$c.log" 2>&1 </dev/null &
	pid_of[$c]=$!
	within 30 test -S "$D/$c.sock" || say_failed "the agent does not start"
done
gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
limits { max_body = 64m send_timeout = 600s send_rate = 0 body_timeout = 600s body_rate = 0 }
memory { frames = 256m }
$(pools)
CONF

cat >"$D/slow.py" <<'PY'
from raw import *
import json, os, select, struct
how, pids = sys.argv[1], {"agent": int(sys.argv[2]), "gateway": int(sys.argv[3])}
whole = how.endswith("sends")
N, LARGE, FRAME = 50, 12000000 if whole else 48000000, 2048
# Half of each: for blocks and frames are larger than what is in them. A stream, and a reply, keeps a window of the RPC, and the agent
# a part and what it reads ahead, or what goes to the server (AGENT_BODY_HIGH). Of so few, some 32 in the gateway and as many in the
# agent have the wide ones (SL_RPC_WIDE_MAX, TRUSTED_MAX), which of who sends is what TCP may receive (rcv_buf); slow-servers.sh has many.
MOST = {"agent": 2 * (64 + 16 << 10), "gateway": 2 * (64 + 16 + (128 if "sends" in how else 0) << 10)}
# Of whole messages, what all of them may be: of a client's address half of memory.frames, and in an agent what a gateway may have
# there (SL_BE_CHANNEL_MEM).
ALL = {"agent": 256 << 20, "gateway": 128 << 20}
SLACK = 1 << 20  # of the whole process, whatever N is
def resident(pid):
    return next(int(l.split()[1]) << 10 for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS"))
def frames():
    """All of them are resident from the start on, so those in use count."""
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[4])
    s.sendall(b"GET /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    got = b"".join(iter(lambda: s.recv(1 << 16), b""))
    return -sum(w["frames_free"] for w in json.loads(got.partition(b"\r\n\r\n")[2])["workers"]) * FRAME
def memory():
    return {"agent": resident(pids["agent"]), "gateway": resident(pids["gateway"]) + frames()}
socks, sent = [], {}
poll = select.poll()
def begin():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(30)
    s.connect((V4, PORT))
    socks.append(s)
    if "reads" in how:
        s.sendall(b"GET /%s/large HTTP/1.1\r\nHost: x\r\n\r\n" % how.encode())
        expect("a reply", s.recv(12), b"HTTP/1.1 200")
    else:
        s.sendall(b"POST /%s/deaf HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (how.encode(), LARGE))
        s.setblocking(False)
        sent[s.fileno()] = [s, 0]
        poll.register(s, select.POLLOUT)
def push(fd):
    """Until it has said all, which only whole messages can be, or is refused."""
    s, n = sent[fd]
    try:
        sent[fd][1] += s.send(bytes(min(65536, LARGE - n)))
    except (BrokenPipeError, ConnectionResetError):
        expect("it was to be stopped, not refused", whole, True)
        poll.unregister(fd)
        return
    if sent[fd][1] == LARGE:
        expect("the client is stopped", whole, True)
        poll.unregister(fd)
def settle():
    """Until nobody takes a byte for a second, and memory stays as it is."""
    while sent and (found := poll.poll(1000)):
        for fd, _ in found:
            push(fd)
    last, now = None, (resident(pids["agent"]), frames())
    while not last or any(abs(a - b) > 65536 for a, b in zip(now, last)):
        time.sleep(0.3)
        last, now = now, (resident(pids["agent"]), frames())
    return memory()
for _ in range(100):
    get(f"/{how}/hello")
before = memory()
for _ in range(N):
    begin()
after = settle()
if sent:
    print(f"{how}: at most {max(n for _, n in sent.values())} bytes could be sent, kernels and all")
for name in pids:
    grown = after[name] - before[name]
    most = N * MOST[name] + (ALL[name] if whole else 0)
    print(f"{how}: {grown // N} bytes of the {name}'s for each of {N}; at most {most // N}")
    # What a sanitizer keeps counts too.
    expect(f"memory of the {name} is bounded", grown < most + SLACK or os.environ.get("SL_SANITIZED") == "1", True)
if whole:
    expect("some are with the server, all of their bytes", sum(n == LARGE for _, n in sent.values()) >= 4, True)
for _ in range(10):
    r = get(f"/{how}/hello")
    expect("another is served", (r.status, r.body), (200, b"hello\n"))
for s in socks:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
PY
for c in "${cases[@]}"; do
	check "$c: memory is bounded, and another is served" cl timeout 200 python3 "$D/slow.py" "$c" "${pid_of[$c]}" "$(gateway_child)" "/run/sluice/$GIF.sock"
	[ -z "${SL_VERBOSE:-}" ] || cat "$D/out"
done
finish
