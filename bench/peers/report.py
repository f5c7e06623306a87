# SPDX-License-Identifier: Apache-2.0
"""Samples in, medians and spread out: TSV rows, a table for people, and the ratios."""
import os
import re
import statistics
import subprocess
import time

from measure import UNITS

CONNECTIONS = 1, 16, 64, 256
HALF = "open50"


class Samples:
    """(contender, load) -> metric -> one value per round."""

    def __init__(self):
        self.values, self.notes = {}, {}

    def add(self, contender, load, result):
        note = result.pop("note", "")
        cell = self.values.setdefault((contender, load), {})
        for metric, value in result.items():
            cell.setdefault(metric, []).append(value)
        if note:
            self.notes.setdefault((contender, load), []).append(note)

    def fail(self, contender, load, why):
        self.values.setdefault((contender, load), {})
        self.notes.setdefault((contender, load), []).append(f"FAILED {why}")

    def median(self, contender, load, metric):
        found = self.values.get((contender, load), {}).get(metric)
        return statistics.median(found) if found else None

    def note(self, key):
        notes = self.notes.get(key, [])
        return f"{notes[0]} ({len(notes)} rounds)" if notes else ""

    def errs(self, contender, load):
        return any(n.startswith(("ERRORS", "FAILED")) for n in self.notes.get((contender, load), []))

    def erring(self):
        return sorted(f"{c} {load}" for c, load in self.notes if self.errs(c, load))


def quotient(above, below):
    return above / below if above is not None and below else None


def ratios(s, who="sluice"):
    """The names are fixed: tests and readers look for them."""
    def over(load, metric, peer):
        return quotient(s.median(who, load, metric), s.median(peer, load, metric))

    # Refusals are cheap: packets count where all requests were answered.
    packets = [s.median(who, f"c{n}", "packets_per_s") for n in CONNECTIONS if not s.errs(who, f"c{n}")]
    limits = [v for (c, load), cell in s.values.items() if c == "ceiling" for v in [s.median(c, load, "packets_per_s")]]
    best = lambda values: max((v for v in values if v is not None), default=None)
    out = {f"throughput_c{n}_over_{peer}": over(f"c{n}", "requests_per_s", peer)
           for n in (64, 256) for peer in ("nginx", "haproxy")}
    out["p50_c1_over_nginx"] = over("c1", "p50", "nginx")
    out["p99_half_load_over_nginx"] = over(HALF, "p99", "nginx")
    out["packets_over_ceiling"] = quotient(best(packets), best(limits))
    out["cpu_per_request_over_nginx"] = over("c64", "gateway_cpu", "nginx")
    out["wrk_throughput_c64_over_nginx"] = over("wrk64", "requests_per_s", "nginx")
    out["grpc_unary_over_nginx"] = over("grpc_c64", "requests_per_s", "nginx")
    return out


def first_line(*argv):
    r = subprocess.run(argv, capture_output=True, text=True)
    return (r.stdout or r.stderr).strip().split("\n")[0]


def machine():
    info = open("/proc/cpuinfo").read()
    model = re.search(r"^model name\s*:\s*(.*)$", info, re.M)
    u = os.uname()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "kernel": f"{u.sysname} {u.release} {u.machine}",
        "cpu": f"{model[1] if model else 'unknown'}, {os.cpu_count()} cores",
        "commit": first_line("git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short", "HEAD"),
        "nginx": first_line("nginx", "-v").rpartition("/")[2],
        "haproxy": first_line("haproxy", "-v").split()[2],
        "wrk": first_line("wrk", "-v").split()[1],
    }


def number(v):
    return f"{v:.0f}" if abs(v) >= 1000 else f"{v:.4g}"


def rows(s):
    for key, cell in s.values.items():
        note = s.note(key)
        if not cell:
            yield [*key, "none", "", "", "", "0", "", note]
        for metric, values in cell.items():
            yield [*key, metric, number(statistics.median(values)), number(min(values)), number(max(values)),
                   str(len(values)), UNITS[metric], note]


def write_tsv(path, s, about):
    where = f"{os.environ.get('SL_BENCH_HOST') or about['cpu']}\t{about['commit']}\n"
    with open(path, "w") as f:
        for key, value in about.items():
            if key != "commit":
                f.write(f"# {key}\t{value}\n")
        f.write("contender\tload\tmetric\tmedian\tmin\tmax\trounds\tunit\tnote\thost\tcommit\n")
        for row in rows(s):
            f.write("\t".join(row) + "\t" + where)
        for name, value in ratios(s).items():
            f.write(f"ratio\t{name}\tratio\t{'' if value is None else number(value)}\t\t\t\t\t\t{where}")


COLUMNS = ("requests_per_s", "p50", "p99", "p99.9", "gateway_user", "gateway_system", "gateway_softirq", "gateway_cpu",
           "process_cpu", "packets_per_s", "peak_memory")
HEADS = ("requests/s", "p50 us", "p99 us", "p99.9 us", "user", "system", "softirq", "core s/M", "process",
         "packets/s", "peak KiB")


def print_table(s):
    print(f"\n{'load':8} {'contender':11} " + " ".join(f"{h:>10}" for h in HEADS) + "  spread of requests/s, note")
    for key in sorted(s.values, key=lambda k: (list(dict.fromkeys(l for _, l in s.values)).index(k[1]), k[0])):
        cell, (contender, load) = s.values[key], key
        text = []
        for metric in COLUMNS:
            v = s.median(contender, load, metric)
            text.append(f"{'-' if v is None else number(v):>10}")
        rate = cell.get("requests_per_s") or cell.get("round_trips_per_s")
        spread = f"{number(min(rate))}..{number(max(rate))}" if rate else ""
        extra = [f"{m} {number(s.median(contender, load, m))} {UNITS[m]}"
                 for m in ("idle_cpu", "idle_connection", "idle_connections", "round_trips_per_s", "offered")
                 if m in cell]
        print(f"{load:8} {contender:11} " + " ".join(text) + "  " +
              "; ".join(x for x in (spread, *extra, s.note(key)) if x))


def print_ratios(s, who="sluice"):
    prefix = "" if who == "sluice" else who + "_"
    for name, value in ratios(s, who).items():
        print(f"ratio {prefix}{name} {'none' if value is None else f'{value:.3f}'}")
