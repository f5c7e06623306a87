#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: the rounds over soft-RoCE, and gRPC over the same wire.
set -euo pipefail
cd "$VM_REPO"
# shellcheck source=../../tests/vm/guest/rxe-lib.sh
. tests/vm/guest/rxe-lib.sh
tests/vm/guest/rxe-up.sh >/dev/null
trap tests/vm/guest/rxe-down.sh EXIT
bench/kv/rounds.sh "$rxe_server" rc ud grpc
