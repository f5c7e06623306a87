# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the netns tests share. A test, tests/netns/SUBJECT/NAME.sh, sources this, then:
#
#   arena [QUEUES]            two namespaces joined by veth: $G (gateway, 10.99.0.1, fd99::1) and $C (client, .2)
#   backend NAME PROGRAM ...  starts build/PROGRAM on shm://$D/NAME.sock; python_backend does that in Python
#   gateway <<CONFIG          starts the gateway on a configuration and waits until it is ready
#   check TEXT COMMAND ...    one test: passes when the command does
#   finish                    checks that nothing is left over, counts
#
# Pools have a bound of 10 s where shedding is not what a test is about: on a busy host nothing else is safe to say.
# Everything has names of its own ($$), so that runs can overlap; all of it ends in a trap. Nothing asserts times.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
BUILD=${BUILD:-$(cd "$here/../.." && pwd -P)/build}
SLUICE=$BUILD/sluice
NAME=$(basename "$(dirname "$0")")/$(basename "$0" .sh)
G=slg$$ C=slc$$ GIF=slg$$ CIF=slc$$
ARENA=$here/../../user/tools/demo/netns.sh
# Namespaces that go at the end; a test adds those that it makes.
spaces=("$G" "$C")
D=$(mktemp -d "/tmp/sl-netns-XXXXXX") || exit 1
# The gateway runs as this account, unless a configuration names another.
RUN_AS=${RUN_AS:-nobody}
chmod 755 "$D"
export V4=10.99.0.1 V6=fd99::1
export PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
# Sanitized builds are several times slower: the same tests with less load.
if [ "${SL_SANITIZED:-}" = 1 ]; then
	export WRK_SECONDS=2 WRK_CONNS=16 MANY=2000
	export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0:exitcode=99}
	export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
	# Python is not sanitized, but loads our library, which is: the leaks of both cannot be told apart.
	SANITIZED_PYTHON=(LD_PRELOAD="$(gcc -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0)
else
	export WRK_SECONDS=3 WRK_CONNS=64 MANY=10000
	SANITIZED_PYTHON=()
fi

declare -A pid_of=()
passed=0 failed=0 gateway_pid='' baseline='' rings_full=1

gw() { nsenter --net="/run/netns/$G" "$@"; }
cl() { nsenter --net="/run/netns/$C" "$@"; }

say_failed() {
	failed=$((failed + 1))
	echo "    FAIL $NAME: $1"
	[ ! -s "$D/out" ] || tail -n 20 "$D/out" | cut -c1-300 | sed 's/^/     | /'
}

check() {
	local text=$1
	shift
	if "$@" >"$D/out" 2>&1 </dev/null; then
		passed=$((passed + 1))
		[ -z "${SL_VERBOSE:-}" ] || echo "    ok   $NAME: $text"
	else
		say_failed "$text"
	fi
}

# The same with a Python program on stdin, run in the client's namespace: check_py TEXT ARG... <<'EOF'
check_py() {
	local text=$1
	shift
	cat >"$D/test.py"
	check "$text" cl timeout 300 python3 "$D/test.py" "$@"
}

# Retries a command every 50 ms ($WITHIN_PAUSE) for so many seconds.
within() {
	local until=$((${EPOCHREALTIME/./} + $1 * 1000000))
	shift
	while ! "$@"; do
		[ "${EPOCHREALTIME/./}" -lt "$until" ] || return 1
		sleep "${WITHIN_PAUSE:-0.05}"
	done
}

clean_up() {
	local p
	trap - EXIT
	exec 2>/dev/null
	for p in "${pid_of[@]}" $gateway_pid; do kill -KILL "$p" 2>/dev/null; done
	"$ARENA" end "${spaces[@]}"
	wait 2>/dev/null
	rm -f "/run/sluice/$GIF.sock" /run/sluice/"$GIF"@*.sock
	[ -n "${SL_KEEP:-}" ] || rm -rf "$D"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

arena() { "$ARENA" make "$G" "$C" "$@" || exit 1; }

# curl 7.88 loses track of an HTTP/2 upload when a send would block behind a small frame (its cf_h2_send(): what
# nghttp2 took is sent again, and the stream ends by PROTOCOL_ERROR, or curl by 55): its sockets hold it all.
curl_never_blocks() { cl sysctl -qw net.ipv4.tcp_wmem="4096 67108864 67108864"; }

alive() { kill -0 "$1" 2>/dev/null; }

# Backends stay root, which can read the build folder anywhere, in the gateway's group, which they serve.
in_group() { exec setpriv --regid "$(id -g "$RUN_AS")" --clear-groups "$@"; }

backend() {
	local name=$1 program=$2
	shift 2
	in_group "$BUILD/$program" --listen "shm://$D/$name.sock" "$@" >>"$D/$name.log" 2>&1 </dev/null &
	pid_of[$name]=$!
	within 30 test -S "$D/$name.sock" || say_failed "backend $name does not start"
}

# python_backend NAME PROGRAM [ARGUMENT...]: the same in Python, a path from here; its first argument is the endpoint
python_backend() {
	local name=$1 program=$2
	shift 2
	in_group env "${SANITIZED_PYTHON[@]}" PYTHONPATH="$BUILD/python" /usr/bin/python3 "$here/$program" "shm://$D/$name.sock" "$@" \
		>>"$D/$name.log" 2>&1 </dev/null &
	pid_of[$name]=$!
	within 90 test -S "$D/$name.sock" || { cat "$D/$name.log" >"$D/out"; say_failed "backend $name does not start"; }
}

# end_process PID SECONDS: SIGTERM; true if it ended in time, and its status is in $status.
end_process() {
	kill -TERM "$1" 2>/dev/null
	if ! within "$2" eval "! kill -0 $1 2>/dev/null"; then
		kill -KILL "$1"
		wait "$1" 2>/dev/null
		status=137
		return 1
	fi
	wait "$1" 2>/dev/null
	status=$?
}

kill_backend() {
	kill -KILL "${pid_of[$1]}"
	wait "${pid_of[$1]}" 2>/dev/null
	unset "pid_of[$1]"
}

# Writes the configuration from stdin to $D/gw.conf; $GIF, $D and so on are the shell's.
# With SL_SOCKETS=1 the same test uses kernel sockets instead of AF_XDP.
gateway_config() {
	cat >"$D/gw.conf"
	[ "${SL_SOCKETS:-}" != 1 ] || sed -i "s/^interface $GIF {/& mode = socket /" "$D/gw.conf"
	grep -q '^user' "$D/gw.conf" || echo "user = $RUN_AS" >>"$D/gw.conf"
}

gateway_spawn() {
	: >"$D/gw.log"
	nsenter --net="/run/netns/$G" "$SLUICE" run -c "$D/gw.conf" >>"$D/gw.log" 2>&1 </dev/null &
	gateway_pid=$!
}

# The gateway itself; $gateway_pid is its supervisor.
gateway_child() { pgrep -P "$gateway_pid"; }

is_ready() { grep -q '^ready$' "$D/gw.log" || ! alive "$gateway_pid"; }

gateway_start() {
	gateway_spawn
	within 90 is_ready
	if ! grep -q '^ready$' "$D/gw.log"; then
		tail -n 5 "$D"/*.log >"$D/out" 2>&1
		for p in "${!pid_of[@]}"; do alive "${pid_of[$p]}" || echo "$p has ended" >>"$D/out"; done
		say_failed "the gateway does not start"
		exit_with_counts
	fi
	baseline=$(stat_sum frames_free) rings_full=1
	[ -z "$server_way" ] || rings_full=0 # the first reply of a server has left its ring
}

# The baseline of a gateway that has received packets: its fill rings may be short of frames.
take_baseline() { baseline=$(stat_sum frames_free) rings_full=0; }

# Servers: beside the gateway, by agents; with VIA=stack beyond the interface with XDP, by the workers' own TCP.
server_ip=127.0.0.1 server_netns=$G server_keys='' server_way=''
if [ "${VIA:-agent}" = stack ]; then
	server_ip=10.99.0.2 server_netns=$C server_keys='tcp { server_ports = "20000-29999" }' server_way=' via = stack'
fi

gateway() {
	gateway_config
	gateway_start
}

# A gateway that wanted what its sandbox does not let it: a gap in the lists of user/sandbox/seccomp.c.
check_refusals() {
	grep "^sandbox: refused" "$D/gw.log" >"$D/out" 2>/dev/null || return 0
	say_failed "no system call is refused"
	: >"$D/gw.log"
}

# The gateway ends on SIGTERM with status 0, which with a sanitizer means: no report, no leak.
gateway_stop() {
	local pid=$gateway_pid
	gateway_pid=''
	if ! end_process "$pid" 30; then
		tail -n 5 "$D/gw.log" >"$D/out"
		say_failed "the gateway does not end"
	elif [ "$status" -ne "${1:-0}" ]; then
		tail -n 30 "$D/gw.log" >"$D/out"
		say_failed "the gateway ended with status $status"
	fi
	check_refusals
}

# The same for a gateway without requests: nothing is left over.
gateway_end() {
	check_leftovers
	gateway_stop
}

admin() { gw curl -sS --max-time 60 "http://127.0.0.1:9900$1"; }

# stat_sum PATH: a member of /stats (tcp.conns) summed over the workers.
stat_sum() {
	admin /stats | python3 -IS -c '
import functools, json, sys
o = json.load(sys.stdin)
print(sum(functools.reduce(lambda v, k: v[k], sys.argv[1].split("."), w) for w in o["workers"]))' "$1"
}

# metric LINE-PREFIX: the sum of the samples that begin like this.
metric() { admin /metrics | awk -v p="$1" 'index($0, p) == 1 { s += $NF } END { printf "%.0f\n", s }'; }

# Figures that must be as at the start when no requests are left; "frames": those only.
leftovers() {
	admin /stats | python3 -IS -c '
import json, sys
o, baseline, rings_full, bad = json.load(sys.stdin), int(sys.argv[1]), int(sys.argv[3]), []
w = o["workers"]
def want(name, found, expected):
    if found != expected:
        bad.append(f"{name} {found}, expected {expected}")
# A fill ring is refilled in bursts of 64, so it may hold a few frames fewer than at the start, when it was full.
free = sum(x["frames_free"] for x in w)
short = 64 * sum(len(x["ports"]) for x in w)
if not baseline - (0 if rings_full else short) <= free <= baseline + short:
    bad.append(f"frames free {free}, {baseline} at the start")
for i, x in enumerate(w if sys.argv[2] == "all" else []):
    name = "worker %d " % i
    want(name + "exchanges", x["exchanges_used"], 0)
    want(name + "connections", x["tcp"]["conns"], 0)
    want(name + "half open", x["tcp"]["half_open"], 0)
    want(name + "clients", x["clients"], 0)
    want(name + "requests without an outcome", x["core"]["requests"] - sum(x["core"]["outcomes"].values()), 0)
    for b in x["backends"]:
        backend = name + "backend %s/%s " % (b["pool"], b["name"])
        want(backend + "outstanding", b["outstanding"], 0)
        if b["state"] == "up":
            want(backend + "credits", b["slots_free"], b["slots"])
print("; ".join(bad))
sys.exit(len(bad) > 0)' "$baseline" "${1:-all}" "$rings_full"
}

check_leftovers() {
	if within "${LEFT_WITHIN:-30}" leftovers >/dev/null 2>&1; then
		passed=$((passed + 1))
	else
		leftovers >"$D/out" 2>&1
		say_failed "nothing is left over"
	fi
}

exit_with_counts() {
	check_refusals
	echo "counts $passed $failed" >&9
	exit $((failed > 0))
}
[ -e /proc/self/fd/9 ] || exec 9>&1

# Agents and backends that leak say so when they end, which they are not waited for elsewhere.
end_sanitized() {
	local name
	for name in "${!pid_of[@]}"; do
		[[ $(readlink "/proc/${pid_of[$name]}/exe") == "$BUILD"/* ]] || continue
		end_process "${pid_of[$name]}" 30 || say_failed "$name does not end"
		unset "pid_of[$name]"
	done
	grep -hsE -A 20 'Sanitizer|runtime error:' "$D"/*.log >"$D/out" && say_failed "no sanitizer has found anything"
}

finish() {
	if [ -n "$gateway_pid" ]; then
		check_leftovers
		gateway_stop
	fi
	[ "${SL_SANITIZED:-}" != 1 ] || end_sanitized
	exit_with_counts
}
