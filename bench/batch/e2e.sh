#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The policies end to end: load generator, gateway and the score backend in namespaces of their own; needs root.
# Rows: pattern policy goodput p50 p99 mean_batch shed (milliseconds; 2xx replies per second; share of the requests).
# Every request has the bound as its deadline. The first rows tell what batching pays. Loads are shares of what the
# adaptive policy reaches with 96 clients in a closed loop. Figures are only as quiet as the machine is.
#
#   BOUND (80)  latency bound, ms        ROWS (20000)  of the matrix        SECONDS_EACH (4)  per row
here=$(cd "$(dirname "$0")" && pwd -P)
BUILD=${BUILD:-$here/../../build}
BUILD=$(cd "$BUILD" && pwd -P) || exit 1
. "$here/../../tests/netns/lib.sh"

BOUND=${BOUND:-80} ROWS=${ROWS:-20000} SECONDS_EACH=${SECONDS_EACH:-4}
arena
"$BUILD/score" --make-matrix "$ROWS" --matrix "$D/matrix" --dim 256 || exit 1
backend a score --matrix "$D/matrix" --dim 256
python3 -c 'import random, struct, sys
random.seed(1); sys.stdout.buffer.write(struct.pack("<256f", *[random.uniform(-1, 1) for _ in range(256)]))' >"$D/body"

with_policy() {
	gateway <<CONF
interface $GIF { }
listener v4 { address = "$V4" port = 8080 }
pool score {
	batch { bound = ${BOUND}ms max_size = 128 $1 }
	backend a { endpoint = "shm://$D/a.sock" }
}
route "/" { pool = score deadline = ${BOUND}ms }
CONF
	# What the controller learns first is not measured.
	cl "$SLUICE" load -j -Q -n 96 -t 2s -b "$D/body" "http://$V4:8080/" >/dev/null
}

# row PATTERN POLICY LOAD-OPTION...
row() {
	local pattern=$1 policy=$2
	shift 2
	admin /stats >"$D/before"
	cl "$SLUICE" load -j -Q -t "${SECONDS_EACH}s" -b "$D/body" "$@" "http://$V4:8080/" >"$D/load"
	admin /stats >"$D/after"
	python3 - "$pattern" "$policy" "$D/load" "$D/before" "$D/after" <<'EOF'
import json, sys
load, before, after = [json.load(open(f)) for f in sys.argv[3:]]
core = lambda o, k: sum(w["core"][k] for w in o["workers"])
n, bad = load["requests"], load["errors"]["status"]
batches = core(after, "batches") - core(before, "batches")
batched = core(after, "batched") - core(before, "batched")
l = load["latency_ns"]
print("%s\t%s\t%.1f\t%.3f\t%.3f\t%.2f\t%.4f" % (sys.argv[1], sys.argv[2], n / load["seconds"], l["p50"] / 1e6,
      l["p99"] / 1e6, batched / max(1, batches), bad / max(1, n + bad)), flush=True)
EOF
}

printf 'pattern\tpolicy\tgoodput\tp50\tp99\tmean_batch\tshed\n'
capacity=
for policy in "adaptive policy = adaptive" "aimd policy = aimd" "fixed_1 policy = fixed size = 1" \
	"fixed_16 policy = fixed size = 16" "fixed_64 policy = fixed size = 64"; do
	name=${policy%% *}
	with_policy "${policy#* }"
	row e2e_closed_96 "$name" -n 96 | tee "$D/row"
	[ -n "$capacity" ] || capacity=$(cut -f3 "$D/row")
	[ "$name" != fixed_1 ] || unbatched=$(cut -f3 "$D/row")
	for share in 20 60 90 110; do
		row "e2e_constant_$share" "$name" -n 256 -P -r "$(python3 -c "print(int($capacity * $share / 100))")"
	done
	gateway_stop
done
python3 -c "print('ratio e2e batched_over_unbatched %.2f' % ($capacity / max(1, $unbatched)))"
exit $((failed > 0))
