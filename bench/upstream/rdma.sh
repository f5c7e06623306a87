#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unary gRPC calls of an unmodified server on another host, in a guest: by RDMA (soft-RoCE) to its agent, and by tcp:// to the same.
# Rows name<TAB>value<TAB>unit, the last line `ratio NAME VALUE`; they go to bench/results/upstream-rdma.tsv (record.py).
#
#   h2load  == veth ==  gateway  == rdma:// or tcp:// ==  sluice agent  ==  server on gRPC's C core
#
#   agent_rdma_over_direct_tcp   calls/s, 64 at a time, by RDMA over those by tcp://: gateway, agent, server, client and guest
#                                are the same for both, and both cross the same veth
#
# Both are emulated, the processor as much as the adapter: soft-RoCE computes in the kernel what an adapter does, and tcp:// encrypts
# without the instructions that it has elsewhere (tests/vm/vm, --pclmul). In the guest ratios mean something, times do not.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
export BUILD="${BUILD:-$root/build}"
make -s -C "$root" all bench/upstream >&2
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
"$root/tests/vm/vm" run --mem 2048 --timeout 150 -- "$root/bench/upstream/rdma_guest.sh" "$BUILD/bench/peers/grpc_server" | tee "$rows" >&2
python3 "$root/bench/upstream/report.py" "$rows" | "$root/bench/record.py" upstream-rdma
