#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""names.py: fails if two files of user and include define a struct, union or enum with one tag.

A debugger or a tag file cannot tell such types apart. Example programs (user/sdk/programs) and the
alternatives of which one is built (user/front/tls/aead_*.c) may share tags.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = re.compile(r"^user/(?:sdk/programs/|front/tls/aead_openssl\.c)")
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
DEFINITION = re.compile(r"\b(struct|union|enum)\s+([A-Za-z_]\w*)\s*\{")


def main():
    tags = collections.defaultdict(set)
    files = sorted(f for folder in ("user", "include") for f in (ROOT / folder).rglob("*.[ch]"))
    for path in files:
        name = str(path.relative_to(ROOT))
        if SKIPPED.match(name):
            continue
        for _, tag in DEFINITION.findall(NOT_CODE.sub(" ", path.read_text(encoding="utf-8"))):
            tags[tag].add(name)
    if not tags:
        sys.exit("names: no definitions found")
    twice = sorted((tag, sorted(where)) for tag, where in tags.items() if len(where) > 1)
    for tag, where in twice:
        print(f"{where[0]}: tag {tag} is defined in {', '.join(where[1:])}, too")
    sys.exit(bool(twice))


main()
