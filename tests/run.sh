#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh all | long | LAYER...: layers of tests, cheapest first. A layer ends in a line of counts; the last line here is
# their sum: "N passed, N failed, N skipped". Fails when a test failed, or a layer ended without its counts.
#   all   what `make test` runs: the same each time, fuzz targets read their corpora only
#   long  what `make test-long` adds: clang-tidy, load, sanitizers, virtual machines, Debian 13 and arm64, fuzzing against
#         the clock
# Two lanes run at once in "all" and "long", as many tests wait much: their output is never mixed.
#   FUZZ_SECONDS  per fuzz target (default 2)    SL_LAYER_TIMEOUT  seconds per layer (default 3000)
set -u
cd "$(dirname "$0")/.." || exit 1

beside=()
case ${1:-all} in
all)
	layers=(deps build unit stack rpc bpf netns)
	beside=(lint replay) # these build nothing in the folder that the others use
	;;
long)
	layers=(deps build volume vm)
	beside=(asan asan-stack asan-unit tidy debian13 arm64 fuzz)
	;;
*) layers=("$@") ;;
esac
export FUZZ_SECONDS=${FUZZ_SECONDS:-2} FUZZ_JOBS=${FUZZ_JOBS:-$(nproc)}
jobs=$(nproc)
TIMEFORMAT='%U %S'
logs=$(mktemp -d) || exit 1
child='' lane=''
end_all() {
	[ -z "$child" ] || kill -TERM -- "-$child" 2>/dev/null
	[ -z "$lane" ] || kill -TERM "$lane" 2>/dev/null
	wait $child $lane # not for the readers of the output, which end after us
	exit 130
}
trap 'rm -rf "$logs"' EXIT
trap end_all INT TERM HUP
began=$SECONDS

# The command of a layer, in its own process group, so that a signal ends all of it.
run_layer() {
	local target=("test-$1")
	case $1 in
	deps | fuzz) target=("$1") ;;
	lint) target=(lint LINT_STEPS="clang-format cppcheck shellcheck codespell mypy names prose links") ;;
	tidy) target=(lint LINT_STEPS=clang-tidy) ;; # as long as all the others
	replay) target=(fuzz FUZZ_REPLAY=1) ;;
	# Tests in which the gateway or an agent parses bytes of a client, server or backend, and a reload, which frees what is
	# in use. The others are about attaching, operating, other clients of the same parsers, and load.
	asan)
		target=(asan ASAN_TESTS="http h2 grpc/limits datagram streams tls/clients tls/grpc operate/reload \
hostile/clients hostile/backend backends/broken backends/come-and-go backends/tcp \
agent/http1 agent/grpc agent/streams agent/open-streams agent/websocket agent/ends agent/stack-ends")
		;;
	asan-*) target=("$1") ;;
	build) target=(all) ;;
	esac
	set -m
	timeout -k 20 "${SL_LAYER_TIMEOUT:-3000}" make --no-print-directory -j "$jobs" "${target[@]}" 2>&1 </dev/null &
	child=$!
	set +m
	wait "$child"
}

# One layer with its summary. Its counts are added to the file that the last line is made of.
run_and_count() {
	local layer=$1 start=$SECONDS status counts p f s
	echo "== $layer"
	{ time run_layer "$layer" > >(tee "$logs/$layer" | grep --line-buffered -vE '^  (CC|AR|LD|BPF) ') 2>&1; } 2>"$logs/$layer.time"
	status=$?
	child=
	sleep 0.1 # the reader's last lines
	counts=$(sed -nE 's/^.*\b([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$logs/$layer" | tail -n 1)
	case $layer in
	deps | build) counts=$([ $status -eq 0 ] && echo 1 0 0 || echo 0 1 0) ;;
	esac
	if [ -z "$counts" ]; then
		echo "$layer: no counts, exit status $status"
		counts="0 1 0"
	fi
	read -r p f s <<<"$counts"
	if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then
		echo "$layer: nothing failed, but exit status $status"
		f=1
	fi
	printf '== %s: %d passed, %d failed, %d skipped in %d s, %s s of processor time (%d s in all)\n' "$layer" "$p" "$f" "$s" \
		$((SECONDS - start)) "$(awk 'END { printf "%.0f", $1 + $2 }' "$logs/$layer.time")" $((SECONDS - began))
	echo "$p $f $s" >>"$logs/counts"
	[ "$f" -eq 0 ]
}

# The second lane: with less weight, as it waits less, and each layer's output in one piece.
run_beside() {
	local layer
	lane=
	trap - EXIT
	trap end_all TERM
	renice -n 5 -p "$BASHPID" >/dev/null
	for layer in "${beside[@]}"; do
		run_and_count "$layer" >"$logs/$layer.shown" 2>&1
		cat "$logs/$layer.shown"
	done
}

for layer in "${layers[@]}"; do
	run_and_count "$layer" && passes=1 || passes=
	case $layer in
	deps) [ -n "$passes" ] || break ;;
	build)
		[ -n "$passes" ] || break
		[ ${#beside[@]} -eq 0 ] || { run_beside & lane=$!; }
		;;
	esac
done
[ -z "$lane" ] || wait "$lane"
awk '{ p += $1; f += $2; s += $3 } END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 }' "$logs/counts"
