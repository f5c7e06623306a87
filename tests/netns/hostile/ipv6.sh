#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume: first
# Attacks for 20 seconds over IPv6, some at once from an address each, with the latency of somebody who does no harm.
# hostile/neighbours has some of them, over both families, for seconds.
. "$(dirname "$0")/neighbours.sh"

hostile_arena
hostile_groups 6
finish
