#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reference.py SLUICE FILE [--check]: the tables of keys in user/docs/configuration.md.

Replaces the text between the two marks of FILE with what `SLUICE help config` lists.
--check writes nothing; its status is 1 if FILE has another text.
"""
import json
import subprocess
import sys

BEGIN, END = "<!-- keys: begin (make docs) -->\n", "<!-- keys: end -->\n"
TITLES = {"": "Outside of all blocks", "interface": 'interface "NAME"', "listener": "listener NAME", "pool": "pool NAME",
          "pool.backend": "backend NAME, in a pool", "pool.batch": "batch, in a pool",
          "listener.tls": "tls, in a listener", "route": 'route "/PREFIX"', "quota": "quota NAME", "keys": "keys NAME", "route.cors": "cors, in a route"}


def cell(text):
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def row(key):
    allowed = ("list of " if key["list"] else "") + key["allowed"]
    default = "required" if key["required"] else f'`{key["default"]}`' if key["default"] is not None else ""
    restart = "; needs a restart" if key["restart"] else ""
    return f'| `{key["key"]}` | {cell(allowed)} | {default} | {cell(key["help"])}{restart} |\n'


def tables(keys):
    block = None
    for key in keys:
        if key["block"] != block:
            block = key["block"]
            yield f"\n### {TITLES.get(block, block)}\n\n| key | allowed | default | meaning |\n|---|---|---|---|\n"
        yield row(key)
    yield "\n"


def main(sluice, path, check=""):
    keys = json.loads(subprocess.run([sluice, "help", "config", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    with open(path, encoding="utf-8") as file:
        old = file.read()
    before, rest = old.split(BEGIN)
    new = before + BEGIN + "".join(tables(keys)) + END + rest.split(END)[1]
    if check and new != old:
        sys.exit(f"{path}: found other keys than `sluice help config` lists; run: make docs")
    if not check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)


if __name__ == "__main__":
    main(*sys.argv[1:])
