#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume: first
# Runs attacks over IPv6 for 20 seconds, several at once, each from its own address, and measures
# the latency of a well-behaved client. hostile/neighbours runs some of them over both families.
. "$(dirname "$0")/neighbours.sh"

hostile_arena
hostile_groups 6
finish
