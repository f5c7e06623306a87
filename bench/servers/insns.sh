#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# insns.sh: instructions per request of gateways in a guest with zero-copy AF_XDP; prints rows.
#
# Guests have no hardware counters here, so a plugin of QEMU's emulation counts (tests/vm/host). It
# counts all of CPU 0, which has the gateway and the interrupts of its NIC, and nothing else. The
# guest's clock follows the instructions (1 ns each): timers cost what they cost at full speed,
# however busy the host is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${here%/bench/servers}
export BUILD="${BUILD:-$root/build}"
vm=$root/build/vm
make -s -C "$root/tests/vm" >&2
mkdir -p "$vm/out"
counts=$vm/out/insns.$$
trap 'rm -rf "$counts" "$counts.d"' EXIT
trap 'exit 130' INT TERM
"$root/tests/vm/vm" run --kernel newer --net tap --queues 1 --icount yes --mem 1536 --timeout 1800 \
	--plugin "$vm/bin/count_insns.so,to=$counts" -- env PYTHONDONTWRITEBYTECODE=1 ROUNDS="${ROUNDS:-5}" \
	REQUESTS="${REQUESTS:-16000}" CONNECTIONS="${CONNECTIONS:-64}" python3 "$here/insns_guest.py" "$counts" |
	awk -F'\t' 'NF > 1 { print; next } { print >"/dev/stderr" }' # a guest has one output
