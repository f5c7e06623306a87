#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gRPC's interoperability cases with @grpc/grpc-js, against backends of the SDK.
. "$(dirname "$0")/../lib.sh"
. "$here/grpc/grpc_js.bash"
export SL_VERBOSE=1 # gRPC's interoperability cases are shown by name

arena
backend echo echo
backend interop interop
backend slow echo --delay-us 1000000
gateway <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool echo { backend a { endpoint = "shm://$D/echo.sock" } batch { max_latency = 5s } }
pool interop { backend a { endpoint = "shm://$D/interop.sock" } batch { max_latency = 5s } }
pool slow { backend a { endpoint = "shm://$D/slow.sock" } batch { max_latency = 10s } }
route "/sluice.demo.Echo/" { pool = echo }
route "/sluice.demo.Slow/" { pool = slow }
route "/grpc.testing.TestService/" { pool = interop }
route "/grpc.testing.TestService/StreamingInputCall" { pool = interop strip_prefix = no stream = yes }
route "/grpc.testing.TestService/UnimplementedStreamingCall" { pool = interop strip_prefix = no stream = yes }
route "/grpc.testing.TestService/FullDuplexCall" { pool = interop strip_prefix = no stream = yes }
admin { address = "127.0.0.1" port = 9900 }
CONFIG

grpc_js_cases "$V4:8080"
finish
