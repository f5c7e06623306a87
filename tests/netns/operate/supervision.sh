#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Processes that die are started again, and what other processes have in /run/sluice stays. The test has a /run/sluice of its own.
[ -n "${SL_OWN_RUN:-}" ] || SL_OWN_RUN=1 exec unshare -m --propagation slave bash "$0" "$@"
. "$(dirname "$0")/../lib.sh"

mkdir -p /run/sluice
mount -t tmpfs -o mode=755 tmpfs /run/sluice || exit 1
arena

# --- backends' sockets in /run/sluice ---

in_group "$BUILD/echo" --listen shm:///run/sluice/echo.sock >"$D/echo.log" 2>&1 </dev/null &
pid_of[echo]=$!
within 30 test -S /run/sluice/echo.sock
# Sockets of a gateway that died: nothing listens there. One has the name of an admin socket, the other has not.
python3 -c 'import socket, sys
for path in sys.argv[1:]:
	socket.socket(socket.AF_UNIX).bind(path)' "/run/sluice/$GIF@1.sock" /run/sluice/other.sock
echoes() { cl curl -sf --max-time 5 -o /dev/null "http://$V4:8080/echo"; }
config() {
	gateway_config <<END
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool echo { batch { bound = 10s } backend a { endpoint = "shm:///run/sluice/echo.sock" } }
route "/echo" { pool = echo }
$1
END
}
config "admin { socket = \"/run/sluice/echo.sock\" }"
refused() { ! gw timeout 20 "$SLUICE" run -c "$D/gw.conf" && [ -S /run/sluice/echo.sock ]; }
check "a backend's socket is no place for the admin socket" refused
config ""
gateway_spawn
check "a backend that was there before the gateway is connected to" within 30 echoes
check "its socket is still there" test -S /run/sluice/echo.sock
check "the socket of a dead gateway is not" test ! -e "/run/sluice/$GIF@1.sock"
check "a socket of unknown purpose is" test -S /run/sluice/other.sock
kill -KILL "$(gateway_child)"
check "the backend is connected to again after a crash of the gateway" within 30 eval 'grep -q "starts again" "$D/gw.log" && echoes'
within 30 eval '[ "$(grep -c "^ready$" "$D/gw.log")" -eq 2 ]'
gateway_stop
check "and its socket stays when the gateway ends" test -S /run/sluice/echo.sock
finish
