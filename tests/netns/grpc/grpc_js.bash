# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# What tests share that have @grpc/grpc-js as a client; sourced behind lib.sh.

# npm puts it into the build folder once; of tests that run at a time, one waits for the other.
install_grpc_js() {
	mkdir -p "$BUILD/npm"
	(
		cd "$BUILD/npm" && flock -w 150 8 || exit
		[ -e node_modules/@grpc/grpc-js ] || timeout 120 npm install --no-audit --no-fund --silent @grpc/grpc-js
	) 8>"$BUILD/npm/lock" >"$D/npm.log" 2>&1
	test -e "$BUILD/npm/node_modules/@grpc/grpc-js/package.json"
}

# grpc_js_cases ADDRESS: each case of cases.js is a check.
grpc_js_cases() {
	local name
	check "grpc-js is installed" install_grpc_js
	export NODE_PATH=$BUILD/npm/node_modules
	for name in $(node "$here/grpc/cases.js" --list); do
		check "grpc-js: $name" cl timeout 60 node "$here/grpc/cases.js" "$1" "$name"
	done
}
