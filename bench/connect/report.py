# SPDX-License-Identifier: Apache-2.0
"""Rows of the connection bench: medians over its rounds, and ratios of what was measured in the same round."""
import statistics
import sys

RATIOS = {  # the bar of the first is 0.4, of the second 8
    "connect_cold_over_before": ("connect_cold", "before_cold"),
    "connect_prepared_over_hot_rtt": ("connect_prepared", "connect_hot_rtt"),
    "connect_first_over_before": ("connect_first", "before_first"),
    "connect_again_over_before": ("connect_again", "before_again"),
    "connect_cold_over_hot_rtt": ("connect_cold", "connect_hot_rtt"),
    "pinned_gateway_over_before": ("connect_pin_gateway", "before_pin_gateway"),
    "pinned_backend_over_before": ("connect_pin_backend", "before_pin_backend"),
}


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
    for name, (ours, theirs) in RATIOS.items():
        pairs = zip(values[ours], values[theirs], strict=True)
        print(f"ratio {name} {statistics.median(a / b for a, b in pairs):.3f}")


main()
