#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All of http1.sh with via = stack.
export VIA=stack
. "$(dirname "$0")/http1.sh"
