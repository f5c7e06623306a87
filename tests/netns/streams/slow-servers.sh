#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# volume: first
# Memory of streams through an agent of which one end does not read: what streams/slow-ends holds of a backend of the SDK.
. "$(dirname "$0")/slow-ends.sh"

slow_ends agent
finish
