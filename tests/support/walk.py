#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""walk.py PROGRAM [STOPS]: how a small GET goes through the files of the product; see tests/stack/core/walk.c.

A stop is a door: a function of a .c file that another file enters, by its name or by a pointer, on account of the request.
What a burst without a request enters by the same way is none; inline functions of headers are read where they are used. A
switch is a stop in another file than the stop before it, a return a switch to a file that was left before. The fake port
stands for the NIC's. STOPS: the file that gets them, "FILE FUNCTION" a line, in order.

By hand, over the tree of 5b45bc2, there were 138 stops in 45 files with 108 switches; counted like this 121, 47 and 107.
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = 70  # switches
PRODUCT = ("user/", "tests/support/fake_port.c")


def calls(text):
    """What was recorded, as (kind, the chain of functions that leads there) in order."""
    chain = []
    for line in text.splitlines():
        kind, depth, function = line.split()
        del chain[int(depth) - 1:]
        chain += [None] * (int(depth) - 1 - len(chain)) + [function]
        yield kind, tuple(chain)


def names(program, functions):
    """FILE and name of each address."""
    said = subprocess.run(["addr2line", "-f", "-e", program, *functions], capture_output=True, text=True, check=True)
    lines = said.stdout.splitlines()
    for address, name, where in zip(functions, lines[::2], lines[1::2]):
        path = pathlib.Path(where.rsplit(":", 1)[0]).resolve()
        yield address, (str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path), name)


def doors(recorded, where):
    """The stops: calls of "get" that no idle burst makes, from one file into another."""
    idle = {chain for kind, chain in recorded if kind == "idle"}
    for kind, chain in recorded:
        if kind == "idle" or chain in idle or not is_product(*where[chain[-1]]):
            continue
        file, name = where[chain[-1]]
        callers = (where[f][0] for f in reversed(chain[:-1]) if f)
        if file != next((f for f in callers if f.endswith(".c")), None):
            yield file, name


def is_product(file, name):
    """What the test asks its fake port for is none of the port's own."""
    return file.startswith(PRODUCT) and file.endswith(".c") and not name.startswith("sl_fake_")


def main():
    program = sys.argv[1]
    recorded = list(calls(subprocess.run([program], capture_output=True, text=True, check=True, timeout=120).stdout))
    where = dict(names(program, sorted({f for kind, chain in recorded if kind == "get" for f in chain if f})))
    stops = list(doors(recorded, where))
    files = [f for f, _ in stops]
    left, switches, returns = set(), 0, 0
    for a, b in zip(files, files[1:]):
        if a != b:
            left.add(a)
            switches += 1
            returns += b in left
    if len(sys.argv) > 2:
        pathlib.Path(sys.argv[2]).write_text("".join(f"{f} {name}\n" for f, name in stops))
    print(f"{'OVER' if switches > MOST else 'ok':4} walk of a small GET: {len(set(files))} files, {switches} switches (at most"
          f" {MOST}), {returns} returns to a file left, {len(stops)} stops")


main()
