#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: removes what rxe-up.sh made, as much of it as there is. The modules stay loaded.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/rxe-lib.sh"

printf 'link delete %s\n' rxe0 rxe1 rxe2 rxe3 | rdma -f -b - 2> /dev/null
{
    printf 'link delete %s\n' sl-rxe0 sl-rxe1 sl-rxe2 sl-switch
    printf 'rule delete pref %s\n' 10 10 10 10 11 11 11 11
    # Only if there is none: two of them would stay.
    ip rule show pref 0 | grep -q local || echo 'rule add pref 0 lookup local'
    echo 'rule delete pref 20'
} | ip -force -batch - 2> /dev/null
exit 0
