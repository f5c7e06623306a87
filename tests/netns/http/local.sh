#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients of the gateway's own host and of its containers, which XDP does not see, are served by kernel sockets.
. "$(dirname "$0")/../lib.sh"

arena 2
curl_never_blocks
H=slh$$ # a container of the gateway's host
spaces+=("$H")
ip netns add "$H"
ip -n "$G" link add hostg type veth peer name hoste netns "$H"
ip -n "$G" addr add 10.50.0.1/24 dev hostg
ip -n "$G" link set hostg up
ip -n "$H" addr add 10.50.0.2/24 dev hoste
ip -n "$H" link set hoste up
ip -n "$H" route add default via 10.50.0.1
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$D/a.key" -out "$D/a.pem" -days 90 \
	-subj /CN=a -addext "subjectAltName=DNS:a.example" 2>/dev/null
chown "$RUN_AS" "$D/a.key"
chmod 600 "$D/a.key"
backend echo echo
config() { # LOCAL [LIMITS]
	gateway_config <<EOC
interface $GIF {}
workers { count = 2 }
limits { address_connections = 40 ${2:-} }
listener plain { port = 8080 $1 }
listener exact { address = "$V4" port = 8080 local = no }
listener safe { port = 8443 tls { certificate = "$D/a.pem" key = "$D/a.key" } }
listener behind { port = 8081 proxy_protocol = "127.0.0.1" }
pool echo { batch { max_latency = 10s } backend a { endpoint = "shm://$D/echo.sock" } }
route "/echo" { pool = echo }
route "/" { respond { body = "hello\n" } }
EOC
}
config "local = yes"
gateway_start
hello() { "$1" curl -sS -g --max-time 10 "http://$2:${3:-8080}/" | grep -qx hello; }
con() { nsenter --net="/run/netns/$H" "$@"; }
# By a RST to the SYN, or to the accepted connection.
refused() {
	"$1" curl -sS -g --max-time 10 "http://$2:8080/"
	case $? in 7 | 56) ;; *) false ;; esac
}

check "by loopback" hello gw 127.0.0.1
check "by loopback, IPv6" hello gw "[::1]"
check "by an address of the host" hello gw 10.50.0.1
check "by the interface's address, IPv6" hello gw "[$V6]"
check "from a container" hello con 10.50.0.1
check "from another host, by AF_XDP" hello cl "$V4"
check "a listener with local = no" refused gw "$V4"
check "ss lists the port" eval 'gw ss -Htln "sport = :8080" | grep -q "0.0.0.0:8080"'
check "metrics" within 10 eval '[ "$(metric sluice_sock_accepted_total)" -eq 5 -a "$(metric sluice_sock_refused_total)" -eq 1 ]'

same() { # BYTES [CURL-OPTION...]
	local len=$1
	shift
	head -c "$len" /dev/urandom >"$D/body"
	gw curl -sS -f --max-time 60 -o "$D/reply" --data-binary "@$D/body" "$@" && cmp "$D/body" "$D/reply"
}
for len in 1 2047 2048 2049 65536 1048577 8388608; do
	check "POST of $len bytes" same $len http://127.0.0.1:8080/echo
	check "POST of $len bytes, HTTP/2" same $len --http2-prior-knowledge http://127.0.0.1:8080/echo
	check "POST of $len bytes, TLS" same $len --cacert "$D/a.pem" --resolve a.example:8443:127.0.0.1 https://a.example:8443/echo
done
check "a PROXY header" eval 'gw curl -sS --max-time 10 --haproxy-protocol http://127.0.0.1:8081/ | grep -qx hello'
check "none where it must be" eval '! gw curl -sS --max-time 10 http://127.0.0.1:8081/ 2>/dev/null'

cat >"$D/clients.py" <<'EOF'
import select, socket, sys, time
def opened(n=1):
    return [socket.create_connection(("127.0.0.1", 8080), 20) for _ in range(n)]
def ask(s, path=b"/"):
    s.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
    return s.recv(65536)
def ended(s):
    try:
        while d := s.recv(65536):
            pass
        return "end"
    except ConnectionResetError:
        return "reset"
what = sys.argv[1]
if what == "pipelined":
    s, = opened()
    s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 200)
    got = b""
    while got.count(b"hello\n") < 200:
        got += s.recv(65536)
elif what == "bytewise":
    s, = opened()
    for b in b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n" + b"x" * 30:
        s.sendall(bytes([b]))
    assert b"200" in s.recv(65536)
elif what == "limit":
    kept, bad = [], 0
    for _ in range(100):
        try:
            kept += opened()
        except ConnectionResetError:
            bad += 1
    ended_cnt = lambda: bad + sum(select.select([s], [], [], 0)[0] != [] for s in kept)
    until = time.monotonic() + 20
    while ended_cnt() < 20 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.5)
    assert 20 <= ended_cnt() <= 60, ended_cnt() # each of two workers allows 40
elif what == "timeouts":
    idle, head, sent = opened(3)
    ask(idle)
    head.sendall(b"GET / HT")
    assert b"408" in head.recv(65536)
    assert ended(idle) == "end"
elif what == "slow reader":
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", 8080))
    body = b"x" * (4 << 20)
    s.settimeout(20)
    try:
        for _ in range(16):
            s.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(5)
        assert ended(s) == "reset", "served on"
    except (ConnectionResetError, BrokenPipeError):
        pass
elif what == "half":
    s, = opened()
    s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    s.shutdown(socket.SHUT_WR)
    assert b"hello" in s.recv(65536) and s.recv(1) == b""
elif what == "hold":
    s, = opened()
    ask(s)
    print("held", flush=True)
    assert ended(s) == "end"
    try:
        opened()
        raise SystemExit("accepted while draining")
    except ConnectionRefusedError:
        pass
EOF
for what in pipelined bytewise limit half; do
	check "$what" gw timeout 60 python3 "$D/clients.py" "$what"
done
config "local = yes" "header_timeout = 1s idle_timeout = 2s send_timeout = 1s"
check "a reload with short time-outs" gw "$SLUICE" reload -c "$D/gw.conf"
for what in timeouts "slow reader"; do
	check "$what" gw timeout 60 python3 "$D/clients.py" "$what"
done

# --- reload ---

config "local = no"
check "a reload to local = no" gw "$SLUICE" reload -c "$D/gw.conf"
check "refuses local clients" within 10 refused gw 127.0.0.1
check "and serves others" hello cl "$V4"
config ""
check "a reload back to the default" gw "$SLUICE" reload -c "$D/gw.conf"
check "serves local clients" within 10 hello gw 127.0.0.1

gw timeout 60 python3 "$D/clients.py" hold >"$D/held" 2>&1 &
held=$!
within 10 grep -q held "$D/held"
gateway_stop
check "a drain ends an idle connection and refuses new ones" eval 'wait $held || { cat "$D/held"; false; }'
finish
