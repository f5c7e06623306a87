#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# layers.sh: checks the dependency order of modules. Fails on:
#   - an include against the order, or of a file that does not exist
#   - a permission that is not used, or that is against the order
#   - an order of rooms in user/README.md that differs from the Makefile
#   - a comment that names a file that does not exist
#   - code of the core that names grpc
#   - an include of rpc/rdma/rc or rpc/rdma/ud from elsewhere in rpc/rdma.
# Each module may include itself, include/sluice, and the modules or headers of its line.
set -u
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build}

files=$(find user include bpf bench -name '*.[ch]' 2>/dev/null | sort)
named=$(find tests -name '*.[ch]' | sort)
# shellcheck disable=SC2086
NAMED=$named awk '
function exists(path,  line, r) {
	if (!(path in known)) {
		r = (getline line < path)
		close(path)
		known[path] = r >= 0
	}
	return known[path]
}
function complain(what) {
	printf "%s:%d: %s\n", FILENAME, FNR, what
	bad++
}
function module_of(path,  part) {
	split(path, part, "/")
	return part[1] == "user" ? part[2] : part[1]
}
function permitted(module, inc,  words, n, i, target) {
	target = inc
	sub(/\/.*/, "", target)
	if (target == module || target == "sluice" || allow[module] == "all")
		return 1
	n = split(allow[module], words, " ")
	for (i = 1; i <= n; i++)
		if (words[i] == target || words[i] == inc) {
			used[module, words[i]] = 1
			return 1
		}
	return 0
}
function find_unused(  module, words, n, i) {
	for (module in allow) {
		n = allow[module] == "all" ? 0 : split(allow[module], words, " ")
		for (i = 1; i <= n; i++)
			if (!((module, words[i]) in used)) {
				found(module " may include " words[i] ", and never does")
			}
	}
}
function found(what) {
	print "tests/support/layers.sh: " what
	bad++
}
# The rooms of the Makefile from left to right, and those of the map from above.
function look_at_order(  line, rooms, map, place, words, n, i, module, target) {
	while ((getline line < "Makefile") > 0)
		if (sub(/^MODULES *:= */, "", line))
			rooms = line
	while ((getline line < "user/README.md") > 0 && line !~ /^## Path/)
		if (line ~ /^\| `/) {
			sub(/^\| /, "", line)
			sub(/ \|.*/, "", line)
			gsub(/[`,]/, "", line)
			map = map (map ? " " : "") line
		}
	if (rooms != map)
		found("the Makefile has the rooms " rooms "; user/README.md " map)
	n = split(rooms, words, " ")
	for (i = 1; i <= n; i++)
		place[words[i]] = i
	for (module in allow) {
		if (!(module in place))
			continue
		n = split(allow[module], words, " ")
		for (i = 1; i <= n; i++) {
			target = words[i]
			sub(/\/.*/, "", target)
			if (target != "all" && !(place[target] && place[target] < place[module]))
				found(module " may include " words[i] ", which is not to its left")
		}
	}
}
function remember(path) {
	sub(/.*\//, "", path)
	ours[path] = 1
}
BEGIN {
	split(ENVIRON["NAMED"], paths)
	for (i in paths)
		remember(paths[i])
	for (i = 1; i < ARGC; i++)
		remember(ARGV[i])
	allow["include"] = ""
	allow["base"] = ""
	allow["sandbox"] = "base"
	allow["wire"] = "base"
	allow["http"] = "base"
	allow["config"] = "base wire http"
	allow["xio"] = "base wire"
	allow["net"] = "base wire xio"
	allow["tcp"] = "base wire xio net config/defaults.h"
	allow["udp"] = "base wire net"
	allow["front"] = "base wire http config xio/frame.h"
	allow["sock"] = "base wire front/conn.h"
	allow["batch"] = "base config"
	allow["rpc"] = "base config wire"
	allow["origin"] = "base wire http front rpc"
	allow["sdk"] = "base rpc wire"
	allow["core"] = "base wire http config net tcp udp front sock batch rpc"
	allow["worker"] = "base sandbox wire config xio net tcp front sock rpc origin core"
	allow["gateway"] = "base sandbox config xio net tcp udp front sock rpc origin core worker"
	allow["control"] = "base sandbox config wire front sock core gateway"
	allow["agent"] = "base sandbox config origin"
	allow["tools"] = "base wire xio net tcp control/fields.h front/tls/record.h"
	allow["cli"] = "all"
	allow["service"] = "cli/cli.h"
	allow["bench"] = "all"
	allow["bpf"] = ""
	build = ENVIRON["BUILD"]
	look_at_order()
}
FNR == 1 {
	commented = 0
	module = module_of(FILENAME)
	dir = FILENAME
	sub(/[^\/]*$/, "", dir)
	if (!(module in allow))
		complain("module " module " is not in the table of tests/support/layers.sh")
}
FILENAME ~ /^user\/core\// {
	code = $0
	gsub(/\/\*([^*]|\*[^\/])*\*\//, "", code)
	if (commented && !sub(/^.*\*\//, "", code))
		code = ""
	else
		commented = sub(/\/\*.*/, "", code)
	if (tolower(code) ~ /(^|[^a-z0-9_])grpc([^a-z0-9_]|$)/)
		complain("says grpc: fronts know protocols, the core does not")
}
/^ \*|\/\*/ {
	said = $0
	sub(/^.*\/\*/, "", said)
	while (match(said, /[a-zA-Z0-9_.\/]*[a-z0-9_]\.[ch]([^a-z0-9_.]|$)/)) {
		word = substr(said, RSTART, RLENGTH)
		said = substr(said, RSTART + RLENGTH)
		sub(/\.[ch].*/, "." substr(word, index(word, ".") + 1, 1), word)
		if (word !~ /\// && !(word in ours))
			complain("names \"" word "\", which is no file of ours")
	}
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
	inc = $0
	sub(/^[^"]*"/, "", inc)
	sub(/".*/, "", inc)
	if (inc ~ /\.skel\.h$/) { # made by the build
		if (module != "xio" && module != "cli")
			complain("includes \"" inc "\"; the BPF skeleton is for xio and cli only")
		next
	}
	if (inc ~ /\.pb-c\.[ch]$/) { # made by the build of a neighbour
		sub(/\.pb-c\.[ch]$/, ".proto", inc)
		if (!exists(dir inc))
			complain("includes what is made of \"" inc "\", which is no file in " dir)
		next
	}
	if (inc ~ /\.inc$/) # made by the build: the bytes of a file
		next
	if (inc ~ /\.\.\//) {
		complain("includes \"" inc "\"; paths start at user/ or include/, or name a neighbour")
		next
	}
	if (module == "bench" && exists("tests/support/" inc))
		next
	if (inc !~ /\// || exists(dir inc)) { # a neighbour
		if (!exists(dir inc))
			complain("includes \"" inc "\", which is no file in " dir)
		next
	}
	if (!exists("user/" inc) && !exists("include/" inc)) {
		complain("includes \"" inc "\", which is no file in user/ or include/")
		next
	}
	if (dir ~ /^user\/rpc\/rdma\// && inc ~ /^rpc\/rdma\/(rc|ud)\// && index("user/" inc, dir) != 1)
		complain("includes \"" inc "\"; rpc/rdma is for rc and ud, which do not know each other")
	if (dir == "user/rpc/rdma/" && inc ~ /^rpc\/rdma\/(rc|ud)\//)
		complain("includes \"" inc "\"; what rc and ud share knows neither")
	if (!permitted(module, inc))
		complain("includes \"" inc "\"; " module " may include itself, sluice" \
			(allow[module] ? ", " allow[module] : ""))
}
END {
	find_unused()
	if (!bad)
		printf "layers: %d files in order\n", ARGC - 1
	exit bad > 0
}' $files
