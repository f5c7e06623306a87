#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""links.py: fails on a relative link of a tracked Markdown page without its file or heading, and prints each."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")


def text_of(page):
    """The page without code fences and inline code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S))


def anchors(page):
    """The anchors that GitHub makes of the headings of a page."""
    plain = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    names = set()
    for title in re.findall(r"^#+ (.*)$", plain, re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        count, unique = 0, name
        while unique in names:
            count += 1
            unique = f"{name}-{count}"
        names.add(unique)
    return names


def faults(page):
    for target in LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"found a link to {target}; there is no such file"
        elif anchor and anchor not in anchors(file):
            yield f"found a link to {target}; there is no such heading"


def main():
    names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    bad = [f"{name}: {fault}" for name in names for fault in faults(ROOT / name)]
    print("\n".join(bad) or f"links: {len(names)} pages")
    sys.exit(bool(bad) or not names)


if __name__ == "__main__":
    main()
