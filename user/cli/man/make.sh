#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make.sh SLUICE PAGE.in: the page, with each line @TOPIC@ replaced by what the program says of it.
# @example@ is the example of the SDK's header.
set -eu
sluice=$1 page=$2
header=$(dirname "$0")/../../../include/sluice/backend.h

example() {
	printf '#include <sluice/backend.h>\n\n'
	sed -n '/^ \*   static void handle/,/^ \* Ownership/p' "$header" | sed '$d' |
		sed 's/^ \*//; s/^   //; s/\\/\\e/g; s/-/\\-/g' | sed '$d'
}

while IFS= read -r line; do
	case $line in
	@example@) example ;;
	@*@)
		topic=${line#@}
		"$sluice" help "${topic%@}" --roff
		;;
	*) printf '%s\n' "$line" ;;
	esac
done <"$page"
