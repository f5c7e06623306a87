#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hardening.sh PROGRAM: what the linker and the compiler were asked for is in it; a line for each that is not.
set -u
program=$1
bad=0
want() { # text, pattern, command...
	local text=$1 pattern=$2
	shift 2
	"$@" 2>/dev/null | grep -qE -- "$pattern" || { echo "$program: no $text"; bad=1; }
}
want "position-independent code" 'Type: +DYN' readelf -hW "$program"
want "read-only relocations" GNU_RELRO readelf -lW "$program"
want "binding at the start" 'BIND_NOW|FLAGS.*NOW' readelf -dW "$program"
want "stack protector" __stack_chk_fail readelf --dyn-syms -W "$program"
want "checked copies" '__(memcpy|snprintf|vsnprintf|fprintf|printf|read|recv)_chk' readelf --dyn-syms -W "$program"
# The note (IBT, SHSTK) is lost to the start files of Debian 12's C library, which lack it: our code has the landing pads.
[ "$(uname -m)" != x86_64 ] || want "control-flow protection" endbr64 objdump -d --no-show-raw-insn --disassemble=main "$program"
# Of these two nothing is left that a linker could tell: large frames are probed page by page, and in debug information gcc
# says with what each part was compiled.
probed() { objdump -d --no-show-raw-insn "$1" | awk '/sub +\$0x1000,%rsp/ { page = 1; next } page && /(orq|movq) +\$0x0,\(%rsp\)/ { print "probed"; exit } { page = 0 }'; }
[ "$(uname -m)" != x86_64 ] || want "stack clash protection" probed probed "$program"
compiled_with() { readelf -p .debug_str "$1" | grep -E 'GNU (C[0-9]+|GIMPLE) '; }
all_with() { # FLAG: said once it is in each
	local parts
	parts=$(compiled_with "$program") && ! grep -qv -- "$1" <<<"$parts" && echo "all have it"
}
for flag in -ftrivial-auto-var-init=zero -fstack-clash-protection; do
	want "$flag in every part" "all have it" all_with "$flag"
done
if readelf -lW "$program" | grep -E 'GNU_STACK.*RWE|LOAD.*RWE' >/dev/null; then
	echo "$program: memory that is writable and executable"
	bad=1
fi
exit $bad
