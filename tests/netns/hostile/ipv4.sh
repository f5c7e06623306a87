#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume: alone
# Attacks for 20 seconds over IPv4, some at once from an address each, with the latency of somebody who does no harm. The other
# half of them comes over IPv6 (hostile/ipv6); hostile/neighbours has some of both, for seconds.
. "$(dirname "$0")/neighbours.sh"

hostile_arena
export RATIO=5
for group in readers places; do
	hostile 4 "${HOLD:-20}" "$group"
done
finish
