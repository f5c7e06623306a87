#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gRPC with the stock Python client; the cases are in grpc_cases.py, one check each.
. "$(dirname "$0")/lib.sh"

arena
backend echo echo
backend interop interop
backend slow echo --delay-us 300000
backend part echo --streams 3
backend dead echo
gateway <<CONFIG
interface "$GIF" { }
listener web { address = "$V4" port = 8080 }
pool echo {
	backend a { endpoint = "shm://$D/echo.sock" }
	batch { bound = 5s }
	max_body = 64m
}
pool interop { backend a { endpoint = "shm://$D/interop.sock" } batch { bound = 5s } }
pool slow { backend a { endpoint = "shm://$D/slow.sock" } batch { bound = 10s } }
pool part { backend a { endpoint = "shm://$D/part.sock" } }
pool dead { backend a { endpoint = "shm://$D/dead.sock" } }
route "/sluice.demo.Echo/" { pool = echo }
route "/grpc.testing.TestService/" { pool = interop }
route "/sluice.demo.Slow/" { pool = slow }
route "/sluice.demo.Part/" { pool = part }
route "/sluice.demo.Dead/" { pool = dead }
route "/fixed" { reply = 200 body = "hello\n" }
limits { frame_memory = 512m max_body = 64m }
admin { address = "127.0.0.1" port = 9900 }
CONFIG

kill_backend dead
# The distribution's Python is the one that has grpcio.
for name in $(/usr/bin/python3 "$here/grpc_cases.py" --list); do
	check "grpcio: $name" cl timeout 90 /usr/bin/python3 "$here/grpc_cases.py" "$V4:8080" "$name"
done
finish
