# SPDX-License-Identifier: Apache-2.0
"""Rows of benches with pairs: the median of all rounds with minimum and maximum, for record.py."""
import statistics

HEADER = "row", "contender", "median", "min", "max", "rounds", "unit", "aim", "result"


def at_most(x):
    return f"at most {x:g}", lambda m: m <= x


def at_least(x):
    return f"at least {x:g}", lambda m: m >= x


def head():
    print("\t".join(HEADER), flush=True)


def row(name, contender, values, unit, aim=None):
    """Prints a row. `aim`: at_most() or at_least() for the median."""
    m = statistics.median(values)
    text, reached = aim or ("", None)
    print("\t".join([name, contender, *(f"{v:.4g}" for v in (m, min(values), max(values))), str(len(values)), unit,
                     text, "" if reached is None else "ok" if reached(m) else "missed"]), flush=True)


def pairs(above, below):
    """Returns the ratios of rounds in which both have a value."""
    return [a / b for a, b in zip(above, below, strict=True) if a is not None and b]
