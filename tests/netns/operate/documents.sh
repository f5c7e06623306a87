#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The commands, configurations and programs in the documents work as they stand there (documents.py). They run in a
# namespace with the interface eth0 (192.0.2.10) and servers on 127.0.0.1, ports 8000 to 8002. /etc and /run/sluice are copies. These
# commands replace those of the system:
#
#   sluice    run: in the background, until it is ready, as an account that this machine has
#   sudo      with -u: in the background, until its socket is there
#   curl      in the client's namespace, unless it asks 127.0.0.1
. "$(dirname "$0")/../lib.sh"

ROOT=$(cd "$here/../.." && pwd -P)
"$ARENA" make "$G" "$C" 1 eth0 eth0 || exit 1
ip -n "$G" addr add 192.0.2.10/24 dev eth0
ip -n "$C" addr add 192.0.2.2/24 dev eth0

export SLUICE BUILD ROOT RUN_AS C D G PAGES=$D/pages BIN=$D/bin
mkdir "$PAGES" "$BIN" "$D/etc" "$D/work" "$D/www"
chmod 755 "$PAGES"
echo 'a server you have' >"$D/www/index.html"
mkdir -p /run/sluice
nsenter --net="/run/netns/$G" unshare -m --propagation private bash -c '
	mount -t tmpfs -o mode=755 none "$D/etc" && mkdir "$D/etc/up" "$D/etc/work" &&
		mount -t overlay -o "lowerdir=/etc,upperdir=$D/etc/up,workdir=$D/etc/work" none /etc &&
		mount -t tmpfs -o mode=755 none /run/sluice && mkdir -p /etc/sluice && chown "$RUN_AS" /run/sluice &&
		echo ok >"$D/mounted" && exec sleep infinity' 2>"$D/mount.log" &
NS_PID=$! pid_of[mounts]=$!
export NS_PID
within 10 test -e "$D/mounted" || { cp "$D/mount.log" "$D/out"; say_failed "folders of its own"; exit_with_counts; }
for port in 8000 8001 8002; do
	gw /usr/bin/python3 -m http.server -d "$D/www" --bind 127.0.0.1 $port >"$D/server.log" 2>&1 </dev/null &
	pid_of[server-$port]=$!
	within 30 gw bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null || say_failed "the server does not start"
done

cat >"$BIN/sluice" <<'END'
#!/bin/bash
config=''
for ((i = 1; i < $#; i++)); do [ "${!i}" != -c ] || { i=$((i + 1)); config=${!i}; }; done
[ -z "$config" ] || grep -q '^user' "$config" || echo "user = $RUN_AS" >>"$config"
case $1 in
run)
	"$BIN/end-all" gateway
	: >"$D/gateway.log" # before its reader below begins
	"$SLUICE" "$@" >"$D/gateway.log" 2>&1 </dev/null 9>&- &
	echo $! >"$D/gateway.pid"
	for ((i = 0; i < 600; i++)); do
		! grep -qE '^ready$|not ready yet' "$D/gateway.log" || exit 0
		kill -0 $! 2>/dev/null || break
		sleep 0.05
	done
	cat "$D/gateway.log"
	exit 1
	;;
top | trace) exec "$SLUICE" "$@" --count 1 ;;
events)
	timeout 1 "$SLUICE" "$@"
	[ $? = 124 ] # it goes on until it is ended
	exit
	;;
*) exec "$SLUICE" "$@" ;;
esac
END
cat >"$BIN/sudo" <<'END'
#!/bin/bash
[ "$1" = -u ] || exec "$@"
shift 2
before=$(ls -li --time-style=full-iso /run/sluice)
export LD_LIBRARY_PATH=$BUILD PYTHONPATH=$BUILD/python
setpriv --regid "$(id -g "$RUN_AS")" --clear-groups "$@" >"$D/backend.log" 2>&1 </dev/null 9>&- &
echo $! >>"$D/backend.pids"
for ((i = 0; i < 400; i++)); do
	[ "$(ls -li --time-style=full-iso /run/sluice)" = "$before" ] || exit 0
	kill -0 $! 2>/dev/null || break
	sleep 0.05
done
cat "$D/backend.log"
exit 1
END
cat >"$BIN/curl" <<'END'
#!/bin/bash
[[ " $* " != *//127.0.0.1* ]] || exec /usr/bin/curl -sS -m 10 --retry 20 --retry-delay 1 --retry-all-errors "$@"
exec nsenter --net="/run/netns/$C" /usr/bin/curl -sS -m 10 --retry 20 --retry-delay 1 --retry-all-errors -f "$@"
END
cat >"$BIN/cc" <<'END'
#!/bin/bash
exec gcc -I"$ROOT/include" -L"$BUILD" "$@"
END
# end-all [gateway]: ends what the commands above have started.
cat >"$BIN/end-all" <<'END'
#!/bin/bash
for f in "$D"/gateway.pid $([ "${1:-}" = gateway ] || echo "$D/backend.pids"); do
	[ -e "$f" ] || continue
	for pid in $(cat "$f"); do
		kill -TERM "$pid" 2>/dev/null
		for ((i = 0; i < 600; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
		kill -KILL "$pid" 2>/dev/null
	done
	rm -f "$f"
done
true
END
printf '#!/bin/bash\nexec /usr/bin/python3 "$@"\n' >"$BIN/python3"
chmod 755 "$BIN"/*

mapfile -t pages < <(cd "$ROOT" && if [ $# -gt 0 ]; then printf "%s\n" "$@"; else git ls-files "*.md"; fi)
cd "$ROOT" || exit 1
while read -r verdict text; do
	case $verdict in
	ok) passed=$((passed + 1)) ;;
	FAIL) : >"$D/out"; say_failed "$text" ;;
	*) echo "    $verdict $text" ;;
	esac
done < <(/usr/bin/python3 "$here/operate/documents.py" "${pages[@]}" 2>&1)
"$BIN/end-all"
finish
