#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_bins.sh LAYER BINARY...: runs libcheck programs, one line each, and a line of counts at the end.
#   SL_TEST_TIMEOUT  seconds per program (default 1200)      SL_TEST_JOBS  at a time (default: cores)
#   SL_TEST_RUNNER   a command in front of each program, as an emulator
# Fails when a test failed, a program ended without libcheck's summary, or there was none to run.
set -u
# libcheck's 4 s per test are wall-clock time, which a busy machine uses up; the program's limit is what counts.
export CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-600}

run_one() {
	local bin=$1 log=$2 start=$SECONDS status sum checks bad
	# shellcheck disable=SC2086  # words of a command
	timeout -k 5 "${SL_TEST_TIMEOUT:-1200}" ${SL_TEST_RUNNER:-} "$bin" >"$log" 2>&1 </dev/null
	status=$?
	# "100%: Checks: 12, Failures: 0, Errors: 0", one for each suite runner in the program
	sum=$(sed -nE 's/^[0-9]+%: Checks: ([0-9]+), Failures: ([0-9]+), Errors: ([0-9]+)$/\1 \2 \3/p' "$log" |
		awk '{ c += $1; b += $2 + $3 } END { if (NR) print c, b }')
	if [ -z "$sum" ] || [ "${sum%% *}" -eq 0 ]; then
		sum="1 1"
		echo "no summary of libcheck, exit status $status" >>"$log"
	elif [ "$status" -ne 0 ] && [ "${sum##* }" -eq 0 ]; then
		sum="$((${sum%% *} + 1)) 1"
		echo "all checks passed, but exit status $status" >>"$log"
	fi
	read -r checks bad <<<"$sum"
	local line
	printf -v line '%-4s %-48s %4d checks %3ds' "$([ "$bad" -eq 0 ] && echo ok || echo FAIL)" \
		"${bin#*/tests/}" "$checks" $((SECONDS - start))
	# one write, so that lines of parallel programs do not mix
	if [ "$bad" -eq 0 ]; then
		echo "$line"
	else
		echo "$line"$'\n'"$(tail -n 40 "$log" | sed 's/^/     | /')"
	fi
	echo "$((checks - bad)) $bad" >"$log.counts"
}

if [ "${1:-}" = --one ]; then
	run_one "$2" "$3"
	exit 0
fi

layer=${1:?usage: run_bins.sh LAYER BINARY...}
shift
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
i=0
for bin in "$@"; do
	printf '%s\0%s\0' "$bin" "$logs/$((i++))"
done | xargs -0 -r -n 2 -P "${SL_TEST_JOBS:-$(nproc)}" "$0" --one
cat "$logs"/*.counts 2>/dev/null | awk -v layer="$layer" '
	{ passed += $1; failed += $2 }
	END {
		if (!NR) { print layer ": no test programs"; failed = 1 }
		printf "%s: %d passed, %d failed, 0 skipped\n", layer, passed, failed
		exit failed > 0
	}'
