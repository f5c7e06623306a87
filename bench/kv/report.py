#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report.py [--table] FILE...: medians of what rounds.sh has printed, and ratios to gRPC in the same file, or of ud to rc."""
import collections
import pathlib
import statistics
import sys


SYSTEMS = ("shm", "tcp", "rc", "ud", "grpc")  # other lines are messages


def read(path):
    runs = collections.defaultdict(list)
    for line in path.read_text(encoding="ascii").splitlines():
        system, case, *figures = [*line.split(), "", ""]
        if system in SYSTEMS and (case == "spike" or case.isdigit()):
            runs[system, case].append([float(f) for f in figures if f])
    return {key: [statistics.median(column) for column in zip(*rows)] for key, rows in runs.items()}


def table(median):
    print(f"{'':8}{'clients':>8}{'operations/s':>14}{'median us':>11}{'p99 us':>10}{'over gRPC':>11}{'median':>8}")
    for (system, case), figures in median.items():
        if case != "spike":
            base = median.get(("grpc", case), figures)
            print(f"{system:8}{case:>8}{figures[0]:14.0f}{figures[1]:11.1f}{figures[2]:10.1f}"
                  f"{figures[0] / base[0]:11.2f}{figures[1] / base[1]:8.2f}")
    print("\nfirst replies of 32 clients that join 8, us")
    for (system, case), figures in median.items():
        if case == "spike":
            print(f"{system:8}{'median':>8}{figures[0]:14.1f}{'maximum':>11}{figures[1]:10.1f}")


def report(median):
    where = "guest_" if ("ud", "spike") in median else ""
    for (system, case), figures in median.items():
        name = f"kv_{where}{system}_" + (case if case == "spike" else f"c{case}")
        base = median.get(("grpc", case), figures)
        if case == "spike":
            print(f"{name}_first_p50\t{figures[0]:.1f}\tus")
            print(f"{name}_first_max\t{figures[1]:.1f}\tus")
            over = "rc" if system == "ud" else "grpc"
            base = median.get((over, case), figures)
            if system != "grpc":
                print(f"{name}_first_p50_over_{over}\t{figures[0] / base[0]:.2f}\tratio")
                print(f"{name}_first_max_over_{over}\t{figures[1] / base[1]:.2f}\tratio")
            continue
        rate, p50, p99 = figures
        print(f"{name}\t{rate:.0f}\toperations/s")
        print(f"{name}_p50\t{p50:.1f}\tus")
        print(f"{name}_p99\t{p99:.1f}\tus")
        if system != "grpc":
            print(f"{name}_over_grpc\t{rate / base[0]:.2f}\tratio")
            print(f"{name}_p50_over_grpc\t{p50 / base[1]:.2f}\tratio")


show = table if sys.argv[1] == "--table" else report
for name in sys.argv[1 + (show is table):]:
    show(read(pathlib.Path(name)))
