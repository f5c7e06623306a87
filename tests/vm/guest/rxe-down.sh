#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: removes what rxe-up.sh made, as much of it as there is. The modules stay loaded.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/rxe-lib.sh"

for device in rxe0 rxe1 rxe2 rxe3; do rdma link delete $device 2> /dev/null; done
for link in sl-rxe0 sl-rxe1 sl-rxe2 sl-switch; do ip link delete $link 2> /dev/null; done
for pref in 10 10 10 10 11 11 11 11; do ip rule delete pref $pref 2> /dev/null; done
ip rule show pref 0 | grep -q local || ip rule add pref 0 lookup local
ip rule delete pref 20 2> /dev/null
exit 0
