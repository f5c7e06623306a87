# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For benches in bash that drive the gateway themselves; sourced, with the prefix of the namespaces' names:
#
#   . "$here/../arena.sh" upg       namespaces $G (10.99.0.1) and $C (10.99.0.2), a folder $D; gone at the end with all of pids[]
#   gateway_ready                   waits until the gateway whose log is $D/gw.log can be asked, or ends the bench with the log
#   family PID                      a process and all below it
#   cpu_ns PID                      nanoseconds of processor that all threads of its family have had
G=$1$$ C=$1c$$ D=$(mktemp -d /tmp/sl-bench-XXXXXX)
chmod 777 "$D"
pids=()
arena=$(cd "$(dirname "${BASH_SOURCE[0]}")/../user/tools/demo" && pwd -P)/netns.sh
clean_up() {
	exec 2>/dev/null
	kill -KILL "${pids[@]}" || true
	wait || true
	"$arena" end "$G" "$C"
	rm -rf "$D"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
"$arena" make "$G" "$C"

gateway_ready() {
	for _ in $(seq 100); do grep -q '^ready$' "$D/gw.log" && return; sleep 0.1; done
	cat "$D/gw.log"
	exit 1
}

family() {
	local p
	echo "$1"
	for p in $(pgrep -P "$1"); do family "$p"; done
}

cpu_ns() { for p in $(family "$1"); do cat "/proc/$p"/task/*/schedstat; done | awk '{ s += $1 } END { printf "%.0f\n", s }'; }
