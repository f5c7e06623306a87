#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gRPC's interoperability cases by name: stock clients (grpcio, grpc-js), the gateway, an agent, a stock grpcio server.
. "$(dirname "$0")/../lib.sh"
. "$here/grpc/grpc_js.bash"
export SL_VERBOSE=1 # the cases are shown by name

arena
gw /usr/bin/python3 "$here/agent/interop_server.py" 127.0.0.1:50051 >"$D/server.log" 2>&1 &
pid_of[server]=$!
within 30 grep -qs listening "$D/server.log" || { cp "$D/server.log" "$D/out"; say_failed "the server does not start"; }
gateway <<CONF
interface "$GIF" { }
listener v4 { address = "$V4" port = 8080 }
limits { max_message = 16m }
memory { frames = 256m }
pool grpc { backend a { endpoint = "h2c://127.0.0.1:50051" } }
route "/" { pool = grpc }
CONF

unary=(empty_unary large_unary custom_metadata status_code_and_message every_status special_status_message
	unimplemented_method unimplemented_service timeout_on_sleeping_server cancel_after_begin)
for name in "${unary[@]}"; do
	check "grpcio: $name" cl timeout 200 /usr/bin/python3 "$here/grpc/cases.py" "$V4:8080" "$name"
done
for name in $(/usr/bin/python3 "$here/grpc/streams.py" --list); do
	check "grpcio, streams: $name" cl timeout 200 /usr/bin/python3 "$here/grpc/streams.py" "$V4:8080" "$name"
done
for name in $(/usr/bin/python3 "$here/grpc/compressed.py" --list); do
	check "grpcio, compressed: $name" cl timeout 200 /usr/bin/python3 "$here/grpc/compressed.py" "$V4:8080" "$name"
done
grpc_js_cases "$V4:8080"
finish
