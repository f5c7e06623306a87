#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [TARGET...]: builds the fuzz targets with libFuzzer, ASan and UBSan, and runs each.
#   FUZZ_SECONDS  per target (default 600)     FUZZ_JOBS  targets at a time (default 2)
#   FUZZ_TIMEOUT  seconds that an input may take (default 10; more where the machine is taken away)
#   FUZZ_REPLAY=1 only gives each target its corpus, once: the same inputs each time
#   FUZZ_MERGE=1  afterwards minimises what was found into tests/fuzz/corpus/TARGET.zip (to be committed)
#   FUZZ_TOTAL=N  goes on for so many seconds, with those that have run least on the code as it stands
#   FUZZ_SHOW=1   only says for how long each has, by ledger.sh, whose file is to be committed too
# A target's source may have these lines:
#   "/* fuzz: max_len=N */"    longest input (default 4096)
#   "/* fuzz: dict=FILE */"    a dictionary of libFuzzer beside the target
#   "// FUZZ_LDFLAGS: ..."     further arguments of its compilation (globs are expanded)
# New inputs go to $BUILD/fuzz/corpus, failing ones to $BUILD/fuzz/artifacts. An input to keep is a file with a name in
# tests/fuzz/corpus/TARGET, or is added to the archive by corpus.py.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-$PWD/build}
SECONDS_EACH=${FUZZ_SECONDS:-600}
out=$BUILD/fuzz
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1}
sanitize='-fsanitize=address,undefined -fno-sanitize-recover=undefined'

# Minimises the archive and the inputs that were found. Inputs with a name of their own stay, and the archive gets only
# inputs that reach more than these do.
merge_one() { # NAME OPTION-OR-FOLDER...
	local name=$1 merged=$out/merged/$1 own=tests/fuzz/corpus/$1
	shift
	rm -rf "$merged" && mkdir -p "$merged"
	[ ! -d "$own" ] || find "$own" -type f -regextype posix-extended -not -regex '.*/[0-9a-f]{40}' \
		-exec cp -t "$merged" {} +
	"$out/$name" -merge=1 "$merged" "$@" && tests/fuzz/corpus.py pack "$name" "$merged" || return
	[ ! -d "$own" ] || find "$own" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
}
run_one() {
	local name=$1 log=$out/$1.log max_len dict status stat how seeds TIMEFORMAT='%U %S'
	if [ ! -x "$out/$name" ]; then
		echo "FAIL $name: does not build"
		tail -n 20 "$log" | sed 's/^/     | /'
		return 1
	fi
	max_len=$(sed -nE 's|^/\* fuzz: max_len=([0-9]+) \*/$|\1|p' "tests/fuzz/$name.c")
	dict=$(sed -nE 's|^/\* fuzz: dict=(\S+) \*/$|-dict=tests/fuzz/\1|p' "tests/fuzz/$name.c")
	mkdir -p "$out/corpus/$name" "$out/artifacts/$name"
	seeds=("$out/seeds/$name")
	if ! tests/fuzz/corpus.py unpack "$name" "${seeds[0]}" >"$log" 2>&1; then
		echo "FAIL $name: $(cat "$log")"
		return 1
	fi
	[ ! -d "tests/fuzz/corpus/$name" ] || seeds+=("tests/fuzz/corpus/$name")
	how=(-max_total_time="$SECONDS_EACH" -use_value_profile=1 "$out/corpus/$name")
	[ "${FUZZ_REPLAY:-}" != 1 ] || how=(-runs=0)
	{ time timeout -k 10 $((SECONDS_EACH + 120)) "$out/$name" "${how[@]}" "${seeds[@]}" \
		-max_len="${max_len:-4096}" ${dict:+"$dict"} -timeout="${FUZZ_TIMEOUT:-10}" -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="$out/artifacts/$name/" >"$log" 2>&1; } 2>"$out/$name.time"
	status=$?
	[ "${FUZZ_REPLAY:-}" = 1 ] ||
		tests/fuzz/ledger.sh add "$name" "$(awk 'END { print $1 + $2 }' "$out/$name.time")"
	stat=$(awk '/^stat::number_of_executed_units/ { n = $2 }
		/ cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") c = $(i + 1); else if ($i == "corp:") k = $(i + 1) }
		END { printf "%d inputs, %d edges, corpus %s", n, c, k }' "$log")
	if [ $status -ne 0 ]; then
		printf 'FAIL %-20s exit status %d, %s\n' "$name" $status "$stat"
		grep -vE '^#|^\s*NEW|^INFO' "$log" | head -n 40 | sed 's/^/     | /'
		return 1
	fi
	printf 'ok   %-20s %s\n' "$name" "$stat"
	if [ "${FUZZ_MERGE:-}" = 1 ]; then
		merge_one "$name" -max_len="${max_len:-4096}" "${seeds[@]}" "$out/corpus/$name" >>"$log" 2>&1 || {
			echo "FAIL $name: merge failed, see $log"
			return 1
		}
	fi
	return 0
}
# One whose program is newer than all that goes into it stays.
build_one() {
	local name=$1 extra have=() l
	for l in $2; do [ -e "$l" ] && have+=("$l"); done
	rm -f "$out/$name.status"
	[ ! -x "$out/$name" ] || [ ! -s "$out/$name.digest" ] ||
		[ -n "$(find tests/fuzz tests/support user include "${have[@]}" "$0" -type f -newer "$out/$name" \
			-not -path '*/corpus/*' -print -quit)" ] || return 0
	rm -f "$out/$name"
	extra=$(sed -nE 's|^// FUZZ_LDFLAGS: (.*)$|\1|p' "tests/fuzz/$name.c")
	# shellcheck disable=SC2086
	clang -std=gnu17 -O1 -g -D_GNU_SOURCE -DSL_DEBUG -DSL_FUZZ -fno-strict-aliasing -pthread \
		-fsanitize=fuzzer $sanitize -Iinclude -Iuser -I"$out/gen" "tests/fuzz/$name.c" $extra -o "$out/$name" \
		-Wl,--as-needed -Wl,--start-group "${have[@]}" -Wl,--end-group -lconfuse -lxdp -lbpf -lelf -lz \
		-lnghttp2 -lrdmacm -libverbs -lssl -lcrypto -lIPSec_MB -ljansson -lm -Wl,-Map="$out/$name.map" \
		>"$out/$name.log" 2>&1 && tests/fuzz/ledger.sh note "$name"
	return 0 # the run says what did not build
}
if [ "${1:-}" = --build ]; then
	build_one "$3" "$2"
	exit 0
fi
if [ "${1:-}" = --one ]; then
	run_one "$2"
	status=$?
	echo $status >"$out/$2.status"
	exit 0
fi

if [ $# -gt 0 ]; then
	targets=("$@")
else
	mapfile -t targets < <(basename -s .c -a tests/fuzz/*.c)
fi
mkdir -p "$out"

# The modules that targets need, instrumented; one that does not compile fails the targets that
# need it, at their link.
libs=()
for m in base wire http config xio net tcp udp sock front batch rpc origin sdk core agent control; do
	libs+=("$out/lib/libsl_$m.a")
done
make --no-print-directory -k -j "${FUZZ_JOBS:-2}" CC=clang BUILD="$out" \
	CFLAGS="-O1 -g -DSL_DEBUG -DSL_FUZZ -fsanitize=fuzzer-no-link $sanitize" "${libs[@]}" \
	>"$out/build.log" 2>&1 || grep -E 'error|Error' "$out/build.log" | head -n 10
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "${FUZZ_JOBS:-2}" "$0" --build "${libs[*]}"
if [ "${FUZZ_SHOW:-}" = 1 ]; then
	exec tests/fuzz/ledger.sh show "${targets[@]}"
elif [ -n "${FUZZ_TOTAL:-}" ]; then
	all=("${targets[@]}")
	end=$((SECONDS + FUZZ_TOTAL))
	targets=()
	while [ $SECONDS -lt $end ]; do
		mapfile -t next < <(tests/fuzz/ledger.sh show "${all[@]}" | awk '{ print $3 }' | head -n "${FUZZ_JOBS:-2}")
		targets+=("${next[@]}")
		printf '%s\0' "${next[@]}" | xargs -0 -n 1 -P "${FUZZ_JOBS:-2}" "$0" --one
	done
else
	printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "${FUZZ_JOBS:-2}" "$0" --one
fi
[ "${FUZZ_REPLAY:-}" = 1 ] || tests/fuzz/ledger.sh show "${all[@]:-${targets[@]}}"
failed=0
for t in "${targets[@]}"; do
	[ "$(cat "$out/$t.status" 2>/dev/null)" = 0 ] || failed=$((failed + 1))
done
echo "fuzz: $((${#targets[@]} - failed)) passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
