#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [NAME...]: the real gateway on veth between namespaces, with real clients. All tests, SUBJECT/NAME.sh, or those
# whose subject, or subject and name, begin with a NAME: `h2`, `tcp/mtu`. Ends with "N passed, N failed, N skipped". Files
# with a line "# volume" are about load and take long: they run with VOLUME=1, and only they do, or named with their subject.
# Those with "# volume: alone" compare speeds: they come last, one after the other. Those with
# "# volume: first" take longest, and begin before the others. Those with a line "# soak" take ten minutes, and run only by
# their whole name.
#   BUILD         the build folder             SL_SANITIZED=1  it is an ASan build: less load
#   SL_VERBOSE=1  each check                   SL_KEEP=1       keeps the folders with logs
#   SL_TEST_JOBS  at a time (default: three times as many as cores: they wait for three quarters of their time)
set -u
here=$(cd "$(dirname "$0")" && pwd -P)
cd "$here/../.." || exit 1
export BUILD=${BUILD:-$PWD/build}

# A test in a process group of its own, which ends with this one; what it says in one piece, so that lines do not mix.
run_one() {
	local test=$1 out=$2 name start=$SECONDS status p f processor TIMEFORMAT='%U %S'
	name=${test#"$here"/} name=${name%.sh}
	child=
	trap '[ -z "$child" ] || kill -TERM -- "-$child" 2>/dev/null; wait; exit 130' INT TERM HUP
	set -m
	timeout -k 15 "${SL_TEST_TIMEOUT:-720}" bash "$test" 9>"$out.counts" >"$out" 2>&1 </dev/null &
	child=$!
	set +m
	{ time wait "$child"; } 2>"$out.time"
	status=$?
	child=
	processor=$(awk '{ printf "%.1f", $1 + $2 }' "$out.time")
	read -r _ p f < <(tail -n 1 "$out.counts") || p=0 f=0
	if [ "$status" -ne 0 ] && [ "${f:-0}" -eq 0 ]; then
		echo "    FAIL $name: ended with status $status" >>"$out"
		f=1
	fi
	printf '%-4s %-24s %3d checks %3ds, %5ss of processor time\n' "$([ "$f" -eq 0 ] && echo ok || echo FAIL)" "$name" \
		$((p + f)) $((SECONDS - start)) "$processor" >>"$out"
	cat "$out"
	echo "$p $f" >"$out.counts"
}
if [ "${1:-}" = --one ]; then
	run_one "$2" "$3"
	exit 0
fi

fail() {
	printf 'netns: %s\nnetns: 0 passed, 1 failed, 0 skipped\n' "$1"
	exit 1
}
[ "$(id -u)" -eq 0 ] || fail "needs root"
for tool in "$here"/tools/*.c; do
	[ -x "$BUILD/tests/netns/$(basename "$tool" .c)" ] || fail "$tool is not built: make netns-tools"
done
for test in "$here"/*.sh; do
	[[ $test == */lib.sh || $test == */run.sh ]] || fail "$test has no subject: it belongs into a folder"
done

first=() together=() alone=()
for test in "$here"/*/*.sh; do
	name=${test#"$here"/} about_load=
	! grep -q '^# soak' "$test" || [[ " $* " == *" ${name%.sh} "* ]] || continue
	! grep -qE '^# volume(: alone|: first)?$' "$test" || about_load=1
	if [ $# -gt 0 ]; then
		wanted=
		for n; do
			[[ -n $about_load && -z ${VOLUME:-} && $n != */* ]] || [[ ${name%.sh} != "$n"* ]] || wanted=1
		done
		[ -n "$wanted" ] || continue
	elif [ "$about_load" != "${VOLUME:-}" ]; then
		continue
	fi
	if grep -qx '# volume: alone' "$test"; then
		alone+=("$test")
	elif grep -qx '# volume: first' "$test"; then
		first+=("$test")
	else
		together+=("$test")
	fi
done
together=("${first[@]}" "${together[@]}")
[ $((${#together[@]} + ${#alone[@]})) -gt 0 ] || fail "no such test"
outs=$(mktemp -d) || exit 1
trap 'rm -rf "$outs"' EXIT
trap 'wait; exit 130' INT TERM HUP
run_all() { # AT-A-TIME TEST...
	local jobs=$1 test
	shift
	for test; do
		printf '%s\0%s\0' "$test" "$outs/$(basename "$(dirname "$test")").$(basename "$test")"
	done | xargs -0 -r -n 2 -P "$jobs" "$0" --one
}
run_all "${SL_TEST_JOBS:-$(($(nproc) * 3))}" "${together[@]}"
run_all 1 "${alone[@]}"
cat "$outs"/*.counts | awk -v wanted=$((${#together[@]} + ${#alone[@]})) '
	{ passed += $1; failed += $2 }
	END {
		failed += wanted - NR # ended without a word
		printf "netns: %d passed, %d failed, 0 skipped\n", passed, failed
		exit failed > 0
	}'
