# SPDX-License-Identifier: Apache-2.0
"""Rows of the connection bench: medians over its rounds, and ratios of what was measured in the same round."""
import statistics
import sys

# The largest ratio of several pairs counts, each beside its limit, if it has one.
RATIOS = {
    "connect_cold_over_before": [("connect_cold", "before_cold")],  # 0.4 at most
    "connect_prepared_over_hot_rtt": [("connect_prepared", "connect_hot_rtt")],  # 8 at most
    "connect_first_over_before": [("connect_first", "before_first")],
    "connect_again_over_before": [("connect_again", "before_again")],
    "connect_cold_over_hot_rtt": [("connect_cold", "connect_hot_rtt")],
    "pinned_gateway_over_before": [("connect_pin_gateway", "before_pin_gateway")],
    "pinned_backend_over_before": [("connect_pin_backend", "before_pin_backend")],
    # The first reply of one more virtual connection, over a round trip of one that is there: 3 at most.
    "connect_virtual_over_hot_rtt": [("virtual_new", "virtual_hot_rtt")],
    # The older commit's first reply of one more connection, over that of a virtual one: 100 at least.
    "connect_before_over_virtual": [("before_cold", "virtual_new")],
    # The same two between ends that never sleep.
    "connect_virtual_over_hot_rtt_polling": [("virtual_polling_new", "virtual_polling_hot_rtt")],
    "connect_before_over_virtual_polling": [("before_polling_cold", "virtual_polling_new")],
    # Queue pairs, completion queues and descriptors with 1,024 virtual connections, over those with 8: 1.0.
    "qps_grow": [(f"virtual_{what}_many", f"virtual_{what}_few") for what in ("qp", "cq", "fd")],
    # From the start of N backends, beside a load, until each has served a request: 0.17 at most.
    "bootstrap_virtual_over_cold": [(f"virtual_bootstrap_{n}", f"virtual_bootstrap_rc_{n}") for n in (1, 8, 32)],
    # The same over what the older commit took for it.
    "bootstrap_virtual_over_before": [(f"virtual_bootstrap_{n}", f"before_bootstrap_{n}") for n in (1, 8, 32)],
    # Part of that: starting their processes, for any client.
    "bootstrap_start_over_cold": [(f"virtual_start_{n}", f"virtual_bootstrap_rc_{n}") for n in (1, 8, 32)],
    # 99th percentile of round trips while others connect on the other processor, over while it only spins: 1.5 at most.
    "hot_p99_while_others_connect": [("virtual_hot_p99", "virtual_hot_p99_quiet")],
    # The same over as many requests by connections that are there: what is left is what connecting costs.
    "hot_p99_connecting_over_carrying": [("virtual_hot_p99", "virtual_hot_p99_carrying")],
    "hot_p99_carrying_over_quiet": [("virtual_hot_p99_carrying", "virtual_hot_p99_quiet")],
}
PLAIN = {
    "pinned_kib_per_backend": "virtual_pin",  # KiB locked at both ends per virtual connection, from 8 to 1,024: 1 at most
    "busy_backend_connects": "virtual_busy",  # share of dials that come through while a handler takes 1.5 s: 1.0
}


def ratio(values, ours, theirs):
    return statistics.median(a / b for a, b in zip(values[ours], values[theirs], strict=True))


def main():
    values, units = {}, {}
    with open(sys.argv[1], encoding="ascii") as rows:
        for line in rows:
            if line.startswith("#"):
                print(line.rstrip())
                continue
            name, value, unit = line.rstrip("\n").split("\t")
            values.setdefault(name, []).append(float(value))
            units[name] = unit
    for name, all_of in values.items():
        print(f"{name}\t{statistics.median(all_of):.6g}\t{units[name]}")
    for name, pairs in RATIOS.items():
        print(f"ratio {name} {max(ratio(values, *pair) for pair in pairs):.3f}")
    for name, row in PLAIN.items():
        print(f"ratio {name} {statistics.median(values[row]):.3f}")


main()
