# SPDX-License-Identifier: Apache-2.0
"""Rows of the RPC's benches, with the median of what was measured several times, and the ratios that count."""
import os
import platform
import statistics
import sys

RATIOS = {  # per round, then the median: both sides of a round saw the same machine
    "latency_over_perftest": ("verbs_rtt_64B_p50", "perftest_rtt_64B_p50"),
    "message_rate_over_perftest": ("verbs_requests_64B", "perftest_messages_64B"),
    "bulk_over_perftest": ("verbs_bulk_64KiB", "perftest_write_64KiB"),
    "latency_over_ucx": ("verbs_rtt_64B_p50", "ucx_rtt_64B_p50"),
    "message_rate_over_ucx": ("verbs_requests_64B", "ucx_requests_64B"),
}
AS_MEASURED = {
    "urgent_p99_fifo_over_classes": "verbs_urgent_p99_fifo_over_classes",
    "urgent_p99_fifo_over_classes_shm": "shm_urgent_p99_fifo_over_classes",
    "bulk_classes_over_fifo": "verbs_bulk_classes_over_fifo",
    "bulk_classes_over_fifo_shm": "shm_bulk_classes_over_fifo",
    "bulk_alone_classes_over_fifo": "verbs_alone_classes_over_fifo",
    "bulk_alone_classes_over_fifo_shm": "shm_alone_classes_over_fifo",
    "gateway_urgent_p99_alike_over_classes": "verbs_gateway_urgent_p99_alike_over_classes",
    "gateway_urgent_p99_alike_over_classes_shm": "shm_gateway_urgent_p99_alike_over_classes",
    "gateway_bulk_classes_over_alike": "verbs_gateway_bulk_classes_over_alike",
    "gateway_bulk_classes_over_alike_shm": "shm_gateway_bulk_classes_over_alike",
}
POLLING = {"shm": "_shm", "verbs": ""}
CHANNELS = (1, 16, 256)
POLLING_RATIOS = {  # by number of channels; the one without a number is the worst of them
    "hybrid_over_spin_p50": lambda values, row: values[row + "hybrid_p50"][0] / values[row + "spin_p50"][0],
    "awaited_over_spin_p50": lambda values, row: values[row + "awaited_p50"][0] / values[row + "spin_p50"][0],
    "hybrid_cpu_over_events": lambda values, row: values[row + "cpu_over_events"][0],
}


def read(path):
    values, units, notes = {}, {}, []
    with open(path, encoding="ascii") as rows:
        for line in rows:
            if line.startswith("#"):
                notes.append(line.rstrip())
                continue
            name, value, unit = line.rstrip("\n").split("\t")
            values.setdefault(name, []).append(float(value))
            units[name] = unit
    return values, units, notes


def processor():
    with open("/proc/cpuinfo", encoding="ascii") as lines:
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}"


def main():
    values, units, notes = read(sys.argv[1])
    print(f"# host: Linux {platform.release()}, {processor()}")
    # Both ends and the guest's processors spin: with more to do than processors, figures say little.
    print(f"# load average {os.getloadavg()[1]:.1f} over the last five minutes; 2.5 or so is the bench's own")
    print("\n".join(notes))
    for name, all_of in values.items():
        print(f"{name}\t{statistics.median(all_of):.6g}\t{units[name]}")
    for name, (ours, theirs) in RATIOS.items():
        pairs = zip(values[ours], values[theirs], strict=True)
        print(f"ratio {name} {statistics.median(a / b for a, b in pairs):.3f}")
    for name, row in AS_MEASURED.items():
        print(f"ratio {name} {values[row][0]:.3f}")
    for transport, suffix in POLLING.items():
        for name, ratio_of in POLLING_RATIOS.items():
            ratios = [ratio_of(values, f"{transport}_polling_{cnt}_") for cnt in CHANNELS]
            for cnt, ratio in zip(CHANNELS, ratios):
                print(f"ratio {name}_{cnt}{suffix} {ratio:.3f}")
            print(f"ratio {name}{suffix} {max(ratios):.3f}")


main()
