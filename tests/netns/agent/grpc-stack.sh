#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What depends on the way to the server of grpc.sh with via = stack.
export VIA=stack
. "$(dirname "$0")/grpc.sh"
