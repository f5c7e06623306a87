#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record.py SUBJECT: keeps the rows of a bench in bench/results/SUBJECT.tsv, and passes them on to standard output.

Input are lines `name<TAB>value<TAB>unit` and `ratio NAME [CASE] VALUE`, or a table with other columns whose first line
has their names. Each row gets the columns host and commit. New rows replace those of the same host; rows of other hosts
stay. Ratios of a table go to SUBJECT-ratios.tsv. SL_BENCH_HOST names the host (default: processor and kernel).
"""
import os
import pathlib
import platform
import subprocess
import sys

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
LONG = ["name", "value", "unit"]
WHERE = ["host", "commit"]


def host():
    with open("/proc/cpuinfo", encoding="ascii") as info:
        models = [line.split(":")[1].strip() for line in info if line.startswith("model name")]
    return os.environ.get("SL_BENCH_HOST") or f"{len(models)} x {models[0]}, Linux {platform.release()}"


def commit():
    def git(*words):
        return subprocess.run(["git", *words], cwd=RESULTS, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if git("status", "--porcelain", "-uno") else "")


def store(path, columns, rows, here):
    """Writes `rows`, and the rows of other hosts that `path` has with these columns."""
    head = [*columns, *WHERE]
    others = []
    if path.exists():
        old = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        others = [row for row in old[1:] if row[-2] != here[0]] if old and old[0] == head else []
    text = ["\t".join(row) for row in [head, *others, *([*row, *here] for row in rows)]]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def main(subject):
    columns, rows, ratios = LONG, [], []
    for line in sys.stdin:
        print(line, end="", flush=True)
        words = line.split()
        if words[:1] in (["ratio"], ["count"]) and "\t" not in line:
            ratios.append([":".join(words[1:-1]), words[-1], words[0]])
        elif "\t" in line and not line.startswith("#"):
            row = line.rstrip("\n").split("\t")
            if not rows and columns is LONG and len(row) != len(LONG):
                columns = row
            else:
                rows.append(row)
    if not rows and not ratios:
        sys.exit("record.py: found no rows")
    here = [host(), commit()]
    if columns is LONG:
        store(RESULTS / f"{subject}.tsv", LONG, rows + ratios, here)
    else:
        store(RESULTS / f"{subject}.tsv", columns, rows, here)
        if ratios:
            store(RESULTS / f"{subject}-ratios.tsv", LONG, ratios, here)


if __name__ == "__main__":
    main(*sys.argv[1:])
