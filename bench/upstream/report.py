# SPDX-License-Identifier: Apache-2.0
"""Medians of the rows of the ways to backends, and the ratios that count, of each round and then the median."""
import os
import platform
import statistics
import sys

RATIOS = {
    "tcp_rpc_latency_over_netperf": ("tcp_hybrid_64B_p50", "kernel_rtt_64B_p50"),
    "agent_rdma_over_direct_tcp": ("grpc_rdma_c64", "grpc_tcp_c64"),
}


def main():
    values, units = {}, {}
    with open(sys.argv[1], encoding="ascii") as rows:
        for line in rows:
            if line.startswith("#"):
                print(line, end="")
                continue
            name, value, unit = line.rstrip("\n").split("\t")
            values.setdefault(name, []).append(float(value))
            units[name] = unit
    print(f"# host: Linux {platform.release()}, load average {os.getloadavg()[0]:.1f} over the last minute")
    if "kernel_rtt_64B_p50" in values:
        print("# kernel_rtt: pingpong.c, which blocks as netperf's TCP_RR does; netperf is not in Debian's main")
    for name, all_of in values.items():
        print(f"{name}\t{statistics.median(all_of):.6g}\t{units[name]}")
    for name, (ours, theirs) in RATIOS.items():
        if ours not in values:
            continue
        pairs = zip(values[ours], values[theirs], strict=True)
        print(f"ratio {name} {statistics.median(a / b for a, b in pairs):.3f}")


main()
