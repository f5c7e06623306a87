#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All of websocket.sh with via = stack.
export VIA=stack
. "$(dirname "$0")/websocket.sh"
