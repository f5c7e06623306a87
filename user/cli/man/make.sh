#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make.sh SLUICE PAGE.in: the page, with each line @TOPIC@ replaced by what the program says of it.
# @example@ is the example of sluice/backend.h, @client_example@ that of sluice/client.h.
set -eu
sluice=$1 page=$2
include=$(dirname "$0")/../../../include/sluice

# example HEADER FIRST LAST: the lines from FIRST to the one before LAST.
example() {
	printf '#include <sluice/%s>\n\n' "$1"
	sed -n "/^ \*   $2/,/^ \* $3/p" "$include/$1" | sed '$d' |
		sed 's/^ \*//; s/^   //; s/\\/\\e/g; s/-/\\-/g' | sed '$d'
}

while IFS= read -r line; do
	case $line in
	@example@) example backend.h 'static void handle' Ownership ;;
	@client_example@) example client.h 'int main' Servers ;;
	@*@)
		topic=${line#@}
		"$sluice" help "${topic%@}" --roff
		;;
	*) printf '%s\n' "$line" ;;
	esac
done <"$page"
