#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ledger.sh: records how long each fuzz target has run on the present code, over all commits.
# tests/fuzz/ledger.tsv has a line "TARGET DIGEST SECONDS" of processor time for each. The digest
# covers the sources of the target's program without their comments: other changes do not reset the time.
#
#   ledger.sh note TARGET          after a build: records the sources
#   ledger.sh add TARGET SECONDS   after a run of that build
#   ledger.sh show [TARGET...]     seconds of each on the present code, the lowest first
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${BUILD:-$PWD/build}/fuzz
ledger=tests/fuzz/ledger.tsv

# The sources of the archives' members that the linker took, as their .d files have them, and the
# target's own. Members of two folders may have one name: then those of both count.
sources() {
	local module member extra
	extra=$(sed -nE 's|^// FUZZ_LDFLAGS: (.*)$|\1|p' "tests/fuzz/$1.c")
	{
		sed -n 's|^[^ ].*/libsl_\([a-z0-9]*\)\.a(\([A-Za-z0-9_]*\)\.o)$|\1 \2|p' "$out/$1.map" | sort -u |
			while read -r module member; do
				find "$out/obj/user/$module" -name "$member.d" -exec cat {} +
			done
		# shellcheck disable=SC2086
		clang -MM -D_GNU_SOURCE -DSL_DEBUG -DSL_FUZZ -Iinclude -Iuser -I"$out/gen" "tests/fuzz/$1.c" $extra 2>&1
	} | tr -s ' \\:' '\n' | grep -E '^(user|include|tests)/.*\.[ch]$' | sort -u
}

# The digest of a file without its comments, kept by that of the file.
code_digest() {
	local kept=$out/code/$2
	if [ ! -e "$kept" ]; then # by rename, as targets are built in parallel
		gcc -fpreprocessed -dD -E -P -x c "$1" 2>/dev/null | sha256sum >"$kept.$$"
		mv "$kept.$$" "$kept"
	fi
	cat "$kept"
}

digest() {
	local sum file
	[ -s "$out/$1.sources" ] || return
	mkdir -p "$out/code"
	xargs -r sha256sum <"$out/$1.sources" 2>&1 | while read -r sum file; do
		echo "$file"
		code_digest "$file" "$sum"
	done | sha256sum | cut -c -16
}

seconds() {
	awk -v target="$1" -v digest="$2" '$1 == target && $2 == digest { n += $3 } END { print n + 0 }' "$ledger"
}

touch "$ledger"
case $1 in
note)
	sources "$2" >"$out/$2.sources"
	digest "$2" >"$out/$2.digest"
	;;
add)
	(
		flock 9
		of=$(cat "$out/$2.digest")
		sum=$(awk -v more="$3" -v n="$(seconds "$2" "$of")" 'BEGIN { printf "%.0f", n + more }')
		{
			grep -v "^$2	" "$ledger"
			printf '%s\t%s\t%s\n' "$2" "$of" "$sum"
		} | sort >"$out/ledger.new"
		cp "$out/ledger.new" "$ledger"
	) 9>"$out/ledger.lock"
	;;
show)
	shift
	for t in "$@"; do
		printf '%6d s  %s\n' "$(seconds "$t" "$(digest "$t")")" "$t"
	done | sort -n
	;;
esac
