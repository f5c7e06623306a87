#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The gateway on kernel sockets only: without an interface under any account, and for interfaces without XDP.
. "$(dirname "$0")/../lib.sh"

arena
UNPRIVILEGED=(setpriv --reuid 65533 --regid 65533 --clear-groups --bounding-set=-all --inh-caps=-all)
mkdir "$D/own" "$D/bin"
chown 65533:65533 "$D/own"
export XDG_RUNTIME_DIR=$D/own
cp "$SLUICE" "$D/bin/sluice" # the build folder may be root's
chmod 755 "$D/bin" "$D/bin/sluice"
gw python3 -m http.server -d "$D/own" --bind 127.0.0.1 8000 >"$D/server.log" 2>&1 </dev/null &
pid_of[server]=$!
within 30 gw bash -c 'exec 3<>/dev/tcp/127.0.0.1/8000' 2>/dev/null || say_failed "the server does not start"

cat >"$D/gw.conf" <<EOC
listener web { port = 8080 }
pool app { backend a { endpoint = "http://127.0.0.1:8000" } }
route "/" { pool = app }
EOC
chmod 644 "$D/gw.conf"
: >"$D/gw.log"
nsenter --net="/run/netns/$G" "${UNPRIVILEGED[@]}" "$D/bin/sluice" run -c "$D/gw.conf" >"$D/gw.log" 2>&1 </dev/null &
gateway_pid=$!
within 30 grep -q '^ready$' "$D/gw.log"
listed() { "$@" curl -sS --max-time 10 "http://$V4:8080/" | grep -q "Directory listing"; }
check "an account without rights serves its own host" listed gw
check "and others" listed cl
check "it has no capability" eval 'grep -q "^CapEff:\s*0000000000000000" "/proc/$(gateway_child)/status"'
check "its sockets are in its own folder" test -S "$D/own/sluice/local.sock"
check "status finds it" eval 'gw "${UNPRIVILEGED[@]}" "$D/bin/sluice" status | grep -q "^ready"'
sed -i 's/port = 8080/port = 8081/' "$D/gw.conf"
check "reload" gw "${UNPRIVILEGED[@]}" "$D/bin/sluice" reload -c "$D/gw.conf"
check "serves the new port" within 10 eval 'cl curl -sS --max-time 10 "http://$V4:8081/" | grep -q "Directory listing"'
sed -i 's/port = 8081/port = 81/' "$D/gw.conf"
check "a port below 1024 is refused with its line" eval '! gw "${UNPRIVILEGED[@]}" "$D/bin/sluice" reload -c "$D/gw.conf" >"$D/said" 2>&1; cat "$D/said"; grep -q "gw.conf:1: found TCP port 81 of .* without the right to use it; allowed: " "$D/said"'
gateway_stop
check "no warning but of that" eval '! grep -E " (warn|err) " "$D/gw.log" | grep -v "port 81 \|admin: Failed to push"'

# --- interfaces without XDP ---

gateway <<EOC
interface $GIF { mode = socket }
interface lo {}
workers { count = 2 }
listener web { port = 8080 }
route "/" { respond { body = "hello\n" } }
EOC
hello() { "$1" curl -sS -g --max-time 10 "http://$2:8080/" | grep -qx hello; }
check "mode = socket" hello cl "$V4"
check "over IPv6" hello cl "[$V6]"
check "no program is attached" eval '! ip -n "$G" -d link show "$GIF" | grep -q xdp'
check "status tells" eval 'gw "$SLUICE" status | grep -q "$GIF.*kernel sockets"'
check "auto chooses sockets for lo, with a warning" grep -q "warn .*interface lo: kernel sockets instead of XDP: no Ethernet interface" "$D/gw.log"
check "status tells why" eval 'gw "$SLUICE" status | grep -q "lo.*kernel sockets: no Ethernet"'
check "doctor tells" eval 'gw "$SLUICE" doctor -c "$D/gw.conf" >"$D/said" 2>&1; grep -E "$GIF +kernel sockets" "$D/said" && grep -E "lo .*no Ethernet: mode = auto serves it by kernel sockets" "$D/said"'
check "lo is served" hello gw 127.0.0.1
finish
