#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The reference and the manual pages name every key, metric, drop and outcome that the gateway knows, and nothing else.
. "$(dirname "$0")/../lib.sh"

MAN=$BUILD/man
ROOT=$(cd "$here/../.." && pwd -P)
# names TOPIC LIST: what `sluice help TOPIC` lists. labels FAMILY LABEL: the values that /metrics shows.
names() { "$SLUICE" help "$1" --json | python3 -c 'import json, sys
print(*sorted({e["name"] for e in json.load(sys.stdin) if e["list"] == sys.argv[1]}), sep="\n")' "$2"; }
labels() { sed -nE "s/^$1\\{.*$2=\"([^\"]*)\".*/\\1/p" "$D/metrics" | sort -u; }
# table FILE MACRO: the names in a list of X(NAME, "name", ...) of a header.
table() { sed -n "/^#define $2(X)/,/[^\\\\]\$/p" "$ROOT/$1" | grep -oE 'X\([A-Z0-9_]+, "[a-z0-9_]+"' | cut -d'"' -f2 | sort -u; }
# same A B: two lists of names, neither empty.
same() {
	[ -n "$1" ] || echo "the first list is empty"
	[ -n "$1" ] && diff <(echo "$1") <(echo "$2")
}
# in_page PAGE: each name of standard input is the title of an entry, or one of the names of a list.
in_page() {
	local name cnt=0
	sed 's/\\-/-/g' "$MAN/$1" >"$D/page"
	while read -r name; do
		cnt=$((cnt + 1))
		grep -qE "^\\.B ($name)\$|^([a-z0-9_]+, )*$name(,|\$)" "$D/page" || { echo "$name is not in $1"; return 1; }
	done
	[ $cnt -gt 0 ] || { echo "no names"; return 1; }
}
documented() { "$@" | in_page sluice.8; }

arena
gateway_config <<EOC
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
route "/" { respond { status = 200 body = "hello\n" } }
EOC
gateway_start
admin /metrics >"$D/metrics"
check "metrics: as /metrics has them" same "$(sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$D/metrics" | sort -u)" "$(names metrics metrics)"
check "drops" same "$(labels sluice_drops_total reason)" "$(names drops drops)"
check "drops, as the header lists them" same "$(table include/sluice/drop.h SL_DROPS)" "$(names drops drops)"
check "verdicts" same "$(labels sluice_rx_packets_total verdict)" "$(names drops verdicts)"
check "outcomes" same "$(labels sluice_exchanges_total outcome)" "$(names outcomes outcomes)"
check "outcomes, as the header lists them" same "$(table include/sluice/outcome.h SL_OUTCOMES)" "$(names outcomes outcomes)"
check "errors" same "$(labels sluice_front_errors_total error)" "$(names outcomes errors)"

check "sluice(8): each metric" documented names metrics metrics
# Metrics in the documents, but for the old names in a table of renamed ones.
in_documents() { cat "$ROOT"/README.md "$ROOT"/user/docs/*.md | sed -E 's/^\| `sluice_[^|]*\| (`sluice_)/\1/' | grep -oE '\bsluice_[a-z0-9_]+' | sort -u; }
check "documents: each metric" eval '[ -z "$(in_documents | comm -23 - <(names metrics metrics | sort -u) | tee /dev/stderr)" ]'
check "each drop" documented names drops drops
check "each verdict" documented names drops verdicts
check "each outcome" documented names outcomes outcomes
check "each error" documented names outcomes errors
# each PAGE PATTERN-BEFORE PATTERN-AFTER: every name of standard input is there, between these.
each() {
	local name cnt=0
	while read -r name; do
		cnt=$((cnt + 1))
		grep -qE "$2$name$3" "$MAN/$1" || { echo "$name is not in $1"; return 1; }
	done
	[ $cnt -gt 0 ]
}
check "configuration.md: the keys" "$ROOT/user/cli/man/reference.py" "$SLUICE" "$ROOT/user/docs/configuration.md" --check
check "each command" eval 'names commands commands | each sluice.8 "^\.B " "( |\$)"'
keys() { "$SLUICE" help config --json | python3 -c 'import json, sys
print(*sorted({e["key"] for e in json.load(sys.stdin)}), sep="\n")'; }
check "sluice.conf(5): each key" eval 'keys | in_page sluice.conf.5'
functions() { grep -vE "^typedef|SL_DEPRECATED" "$ROOT/include/sluice/backend.h" | grep -oE '\bsl_[a-z_]+\(' | tr -d '(' | sort -u; }
check "libsluice-backend(3): each function of its header" eval 'functions | each libsluice-backend.3 "\b" "\("'
sed -n '/^#include <sluice/,/^\.fi/p' "$MAN/libsluice-backend.3" | sed -n '/^static void handle/,/^\.fi/p' |
	sed '$d; s/\\-/-/g; s/\\e/\\/g' >"$D/handle.c"
check "its example compiles" eval '{ echo "#include <sluice/backend.h>"; cat "$D/handle.c"; } | gcc -std=gnu17 -Wall -Werror -I"$ROOT/include" -x c -c -o "$D/example.o" - && grep -q "int main" "$D/handle.c"'
sed -n '/^interface "eth0"/,/^\.fi/p' "$MAN/sluice.conf.5" | sed '$d; s/\\-/-/g; s/\\e/\\/g; /rdma/d; /key_file/d; s/fallback = .*/endpoint = "shm:\/\/\/run\/b.sock"/' |
	sed "s/\"eth0\"/\"$GIF\"/; 1i user = \"$RUN_AS\"" >"$D/page.conf"
check "the configuration of sluice.conf(5) is right" gw "$SLUICE" check -c "$D/page.conf"
# Bash's completion, in a shell of its own: complete WORD...: what it offers for the last one.
complete() {
	bash --norc -c '. "$1"; shift; COMP_WORDS=(sluice "$@"); COMP_CWORD=$#; _sluice; printf "%s\n" "${COMPREPLY[@]}" | sort -u' _ \
		"$ROOT/user/cli/completion/sluice" "$@"
}
options() { { "$SLUICE" "$1" --help | grep -oE '(^|[ ,])--?[a-zA-Z][a-z-]*' | tr -d ' ,'; echo --help; } | sort -u; }
# takes_value COMMAND OPTION: its --help has a name in capitals behind it.
takes_value() { "$SLUICE" "$1" --help | grep -qE -- "(^|[ ,])$2(, --[a-z-]+)? [A-Z]+"; }
completes_options() {
	local command option
	for command in $(names commands commands); do
		same "$(options "$command")" "$(complete "$command" -)" || { echo "$command"; return 1; }
		for option in $(options "$command"); do
			if takes_value "$command" "$option"; then
				[ -z "$(complete "$command" "$option" --)" ] || { echo "$command $option has a value"; return 1; }
			else
				[ -n "$(complete "$command" "$option" --)" ] || { echo "$command $option has no value"; return 1; }
			fi
		done
	done
}
check "completion: commands" same "$(names commands commands)" "$(complete "")"
check "options of each, and which have a value" completes_options
check "of a word that has begun" same check "$(complete ch)"
check "topics of help" same "$(printf '%s\n' commands config)" "$(complete help co)"
touch "$D/some file.conf"
check "files" same "$(printf '%s\n' "$D/some file.conf")" "$(complete check -c "$D/so")"
check "README: at most 110 lines" eval '[ "$(wc -l <"$ROOT/README.md")" -le 110 ]'
check "no page has a fault" mandoc -T lint -W warning "$MAN"/*
gateway_stop
finish
