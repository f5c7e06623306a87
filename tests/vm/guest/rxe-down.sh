#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: removes what rxe-up.sh made. The modules stay loaded.
set -euo pipefail

if rdma link show rxe0/1 > /dev/null 2>&1; then rdma link delete rxe0; fi
if ip link show sl-rxe0 > /dev/null 2>&1; then ip link delete sl-rxe0; fi
