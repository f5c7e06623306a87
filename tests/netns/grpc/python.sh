#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gRPC with the stock Python client; the cases are in cases.py, one check each.
. "$(dirname "$0")/../lib.sh"
export SL_VERBOSE=1 # gRPC's interoperability cases are shown by name

arena
backend echo echo
backend interop interop
backend slow echo --delay-us 1000000
backend part echo --streams 3
backend late echo --streams 3 --grpc-status 9
backend dead echo
backend changing echo
cat >"$D/open.proto" <<PROTO
syntax = "proto2";
package sluice.test;
message Open { extensions 100 to 200; }
PROTO
cat >"$D/things.proto" <<PROTO
syntax = "proto2";
package sluice.test;
import "open.proto";
message Inner { message Deep { optional Open open = 1; extend Open { optional int32 deep = 150; } } enum E { E_NONE = 0; } }
extend Open { optional string tag = 100; }
service Things { rpc Do(Inner) returns (Inner.Deep); }
PROTO
protoc-c -I"$here/../../user/sdk/programs" -o "$D/interop.pb" interop.proto
protoc-c -I"$D" --include_imports -o "$D/things.pb" things.proto
gateway <<CONFIG
descriptor_sets = {"$D/interop.pb", "$D/things.pb"}
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool echo {
	backend a { endpoint = "shm://$D/echo.sock" }
	batch { max_latency = 5s }
	max_body = 64m
}
pool interop { backend a { endpoint = "shm://$D/interop.sock" } batch { max_latency = 5s } }
pool slow { backend a { endpoint = "shm://$D/slow.sock" } batch { max_latency = 10s } }
pool part { backend a { endpoint = "shm://$D/part.sock" } }
pool changing { backend a { endpoint = "shm://$D/changing.sock" } }
pool late { backend a { endpoint = "shm://$D/late.sock" } }
pool dead { backend a { endpoint = "shm://$D/dead.sock" } }
route "/sluice.demo.Echo/" { pool = echo }
route "/grpc.testing.TestService/" { pool = interop }
route "/sluice.demo.Slow/" { pool = slow }
route "/sluice.demo.Part/" { pool = part }
route "/sluice.demo.Late/" { pool = late }
route "/sluice.demo.Dead/" { pool = dead }
route "/fixed" { respond { status = 200 body = "hello\n" } }
limits { max_body = 64m idle_timeout = 3s header_timeout = 3s }
memory { frames = 512m }
admin { address = "127.0.0.1" port = 9900 }
CONFIG

kill_backend dead
# The distribution's Python is the one that has grpcio.
for name in $(/usr/bin/python3 "$here/grpc/cases.py" --list); do
	check "grpcio: $name" cl timeout 200 /usr/bin/python3 "$here/grpc/cases.py" "$V4:8080" "$name"
done

# A set that is none: one line, with the place in the configuration.
head -c 100 "$D/things.pb" >"$D/cut.pb"
{ echo; echo "descriptor_sets = {\"$D/interop.pb\", \"$D/cut.pb\"}"; cat "$D/gw.conf"; } | sed '3,${/^descriptor_sets/d}' >"$D/bad.conf"
bad_set() {
	! gw "$SLUICE" check -c "$D/bad.conf" 2>"$D/bad.log" && [ "$(wc -l <"$D/bad.log")" = 1 ] &&
		grep -q "^$D/bad.conf:2: found descriptor_sets \"$D/cut.pb\" (.*); allowed: what protoc" "$D/bad.log"
}
check "a descriptor set that is cut is refused, with file and line" bad_set

# Watches while things happen. watch NAME: what is told, a line each, ends in $D/watch.NAME.
watch() { cl timeout 200 /usr/bin/python3 "$here/grpc/cases.py" "$V4:8080" --watch "$1" >"$D/watch.$1" 2>&1 & }
told() {
	[ "$(tr '\n' ' ' <"$D/watch.$1")" = "$2 " ] || {
		echo "told of $1: $(tr '\n' ' ' <"$D/watch.$1")" >"$D/out"
		return 1
	}
}
watch changing
watch echo
first=$!
check "health: a watch begins with the status" within 30 told changing 1
check "health: so does another" within 30 told echo 1
kill_backend changing
check "health: a watch tells that a backend went" within 30 told changing "1 2"
backend changing echo
check "health: a watch tells that it is back" within 30 told changing "1 2 1"
check "health: another watch hears nothing of it" told echo 1
gateway_stop
check "health: on drain it is told, and the watch ends" within 30 told echo "1 2 UNAVAILABLE"
check "health: so is every other" within 30 told changing "1 2 1 2 UNAVAILABLE"
wait "$first"
finish
