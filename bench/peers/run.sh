#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [--rounds N] [--seconds N] [...]: sluice beside nginx and HAProxy; see run.py. Needs root and two cores.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$here/../../build}
export BUILD PYTHONDONTWRITEBYTECODE=1
"$here/../ceiling/build.sh"
mkdir -p "$BUILD/bench/peers"
${CC:-gcc} -std=gnu17 -O2 -g -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
	"$here/grpc_server.c" -o "$BUILD/bench/peers/grpc_server" -lgrpc -lgpr
exec python3 "$here/run.py" "$@"
