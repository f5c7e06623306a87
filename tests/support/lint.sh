#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh: clang-format, clang-tidy, cppcheck, shellcheck, codespell, mypy, names, prose, links. One line per step, findings below it.
# clang-tidy is run again only for files whose preprocessed text has changed since it passed.
#   LINT_STEPS  names of steps (default: all)
set -u
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-$PWD/build}
jobs=${SL_TEST_JOBS:-$(nproc)}
passed=0 failed=0

python_headers=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')

tidy_flags() {
	case $1 in
	user/sdk/python/*) echo "-std=gnu17 -D_GNU_SOURCE -Iinclude -Iuser -isystem $python_headers" ;;
	bpf/*) echo "--target=bpf -g -O2 -Iinclude -Ibpf -I/usr/include/$(uname -m)-linux-gnu" ;;
	*) echo "-std=gnu17 -D_GNU_SOURCE -Iinclude -Iuser -Itests/support -I$BUILD/gen -isystem /usr/share/include/llhttp" ;;
	esac
}

# A ninth of the analyzer's default effort per function finds the same here, in a third of the time.
effort='-Xclang -analyzer-config -Xclang max-nodes=25000'

# One file; prints findings without the paths that lead to them (run clang-tidy for those).
tidy_one() {
	local file=$1 flags key
	flags=$(tidy_flags "$file")
	# shellcheck disable=SC2086
	key=$(clang $flags -E -C -w "$file" 2>/dev/null | cat - .clang-tidy | sha256sum | cut -d' ' -f1)
	[ -e "$BUILD/lint/$key" ] && return 0
	# shellcheck disable=SC2086
	if clang-tidy --quiet "$file" -- $flags $effort 2>/dev/null >"$BUILD/lint/$key.out"; then
		mv "$BUILD/lint/$key.out" "$BUILD/lint/$key"
		return 0
	fi
	grep -A 2 ' error: ' "$BUILD/lint/$key.out"
	rm -f "$BUILD/lint/$key.out"
	return 1
}
if [ "${1:-}" = --tidy ]; then
	shift
	status=0
	for f in "$@"; do tidy_one "$f" || status=1; done
	exit $status
fi

step() { # name, what it looked at, command...
	local name=$1 what=$2 start=$SECONDS out status
	shift 2
	[ -z "${LINT_STEPS:-}" ] || [[ " $LINT_STEPS " == *" $name "* ]] || return 0
	out=$("$@" 2>&1)
	status=$?
	if [ $status -eq 0 ]; then
		passed=$((passed + 1))
		printf 'ok   %-14s %s, %ds\n' "$name" "$what" $((SECONDS - start))
	else
		failed=$((failed + 1))
		printf 'FAIL %-14s %s, %ds\n' "$name" "$what" $((SECONDS - start))
		printf '%s\n' "$out" | head -n 60 | sed 's/^/     | /'
	fi
}

mapfile -t all < <(git ls-files '*.c' '*.h')
mapfile -t units < <(printf '%s\n' "${all[@]}" | grep -E '^(user|bpf|bench)/.*\.c$')
mapfile -t text < <(git ls-files | grep -vE '^(tests/fuzz/corpus|vendor/uplot)/|\.(png|svg|bin)$')
mkdir -p "$BUILD/lint"
mapfile -t scripts < <(git grep -lE '^#!/bin/(ba)?sh')
mapfile -t protos < <(git ls-files '*.proto' | sed -E 's|.*/(.*)\.proto$|'"$BUILD"'/gen/\1.pb-c.c|')
make --no-print-directory "BUILD=$BUILD" "$BUILD/gen/sluice.skel.h" "${protos[@]}" >/dev/null 2>&1

format() { clang-format --dry-run -Werror "${all[@]}"; }
tidy() { printf '%s\0' "${units[@]}" | xargs -0 -n 2 -P "$jobs" "$0" --tidy; }
# Left out: what clang-tidy's analyzer sees better (uninitvar), and where cppcheck is wrong: start and
# end symbols of an embedded file, p + n - k that it takes for (p + n) - k, an address that is copied.
cpp() {
	local hosted
	mapfile -t hosted < <(printf '%s\n' "${units[@]}" | grep -v '^bpf/')
	cppcheck --quiet --std=c11 -j "$jobs" --error-exitcode=1 --inline-suppr \
		--enable=warning,performance,portability --suppress=missingIncludeSystem \
		--suppress=uninitvar --suppress=pointerOutOfBoundsCond \
		--suppress=comparePointers:user/control/dashboard.c \
		--suppress=returnDanglingLifetime:user/rpc/dial.c --suppress=normalCheckLevelMaxBranches \
		-D_GNU_SOURCE '-DLIBBPF_OPTS(type,name,...)=struct type name={0}' \
		'-DDECLARE_LIBBPF_OPTS(type,name,...)=struct type name={0}' '-DSEC(x)=' \
		'-DDECLARE_LIBXDP_OPTS(type,name,...)=struct type name={0}' \
		'-Djson_object_foreach(o,k,v)=while (next(o,&k,&v))' \
		'-Djson_array_foreach(a,i,v)=while (next(a,&i,&v))' \
		'-DPy_RETURN_TRUE=return Py_True' '-DPy_RETURN_NONE=return Py_None' \
		-Iinclude -Iuser "${hosted[@]}"
}
# Left out: what it cannot know of a variable set by name or in a sourced file, optional arguments.
shell() { shellcheck -S warning -e SC2034,SC2120,SC2154 "${scripts[@]}"; }
# te: an HTTP header; iif: of ip-rule; alse: the rest of a literal; upto: a function of the Makefile; others: data in tests
spell() { codespell -L te,iif,alse,upto,keep-alives,fo,ba,nd,ot,hsa,inout "${text[@]}"; }
# Compares the stubs with the package. Python 3.11 does not show that a type has the buffer protocol.
types() {
	make --no-print-directory "BUILD=$BUILD" -j "$jobs" all >/dev/null &&
		cd "$BUILD/python" && mypy --strict sluice/__init__.pyi &&
		PYTHONPATH=. /usr/bin/python3 -m mypy.stubtest sluice --allowlist <(echo 'sluice.Request.__buffer__')
}

# Commits before this one were made without the rule.
prose() {
	tests/support/test_undocumented.py --quiet && tests/support/undocumented.py &&
		tests/support/test_prose.py --quiet && tests/support/prose.py --commits 748b6ee
}

if [ ${#units[@]} -eq 0 ]; then
	echo "lint: no tracked sources"
	exit 1
fi
step clang-format "${#all[@]} files" format
step clang-tidy "${#units[@]} files" tidy
step cppcheck "${#units[@]} files" cpp
step shellcheck "${#scripts[@]} files" shell
step codespell "${#text[@]} files" spell
step mypy "package sluice" types
step names "tags of structs, unions and enums" tests/support/names.py
step prose "comments and documents" prose
step links "documents" tests/support/links.py
echo "lint: $passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
