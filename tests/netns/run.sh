#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [NAME...]: the real gateway on veth between namespaces, with real clients. All tests, or those whose file name
# contains a NAME. Ends with "N passed, N failed, N skipped".
#   BUILD         the build folder             SL_SANITIZED=1  it is an ASan build: less load
#   SL_VERBOSE=1  each check                   SL_KEEP=1       keeps the folders with logs
set -u
here=$(cd "$(dirname "$0")" && pwd -P)
cd "$here/../.." || exit 1
export BUILD=${BUILD:-$PWD/build}
[ "$(id -u)" -eq 0 ] || { echo "netns: needs root"; echo "netns: 0 passed, 1 failed, 0 skipped"; exit 1; }

mkdir -p "$BUILD/tests/netns"
gcc -O2 -Wall -Wextra -D_GNU_SOURCE -o "$BUILD/tests/netns/many" tests/netns/many.c || exit 1

child=
trap '[ -z "$child" ] || kill -TERM -- "-$child" 2>/dev/null; wait; exit 130' INT TERM HUP
counts=$(mktemp) || exit 1
trap 'rm -f "$counts"' EXIT
passed=0 failed=0
for test in "$here"/[0-9]*.sh; do
	name=$(basename "$test" .sh)
	if [ $# -gt 0 ]; then
		wanted=
		for n; do [[ $name == *$n* ]] && wanted=1; done
		[ -n "$wanted" ] || continue
	fi
	start=$SECONDS
	: >"$counts"
	set -m
	timeout -k 15 "${SL_TEST_TIMEOUT:-240}" bash "$test" 9>"$counts" </dev/null &
	child=$!
	set +m
	wait "$child"
	status=$?
	child=
	read -r _ p f < <(tail -n 1 "$counts") || p=0 f=0
	if [ "$status" -ne 0 ] && [ "${f:-0}" -eq 0 ]; then
		echo "    FAIL $name: ended with status $status"
		f=1
	fi
	printf '%-4s %-24s %3d checks %3ds\n' "$([ "$f" -eq 0 ] && echo ok || echo FAIL)" "$name" $((p + f)) $((SECONDS - start))
	passed=$((passed + p)) failed=$((failed + f))
done
[ $((passed + failed)) -gt 0 ] || { echo "netns: no such test"; failed=1; }
echo "netns: $passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
