#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""links.py: fails on relative links of tracked Markdown pages without their file or heading, and prints each.

Source files that a page names in inline code must exist, too: `user/tcp/tcp.h`, `tcp.h`, `h2*.c`, `tests/unit/`.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Files of other projects, and those that a reader or a bench makes.
FOREIGN = re.compile(r"(?:src|modules|include/linux)/")
CODE = re.compile(r"`([\w./*{},-]+\.(?:c|h|py|sh|md|tsv|svg)|(?:user|tests|bench|bpf|include|vendor)/[\w./*-]+)`")
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


def exists(name, tracked):
    """True if a tracked file or folder has this path, or ends in it."""
    pattern = name.rstrip("/")
    return any(fnmatch.fnmatch(path, p) for p in (pattern, "*/" + pattern) for path in tracked)


def unknown_files(page, tracked):
    plain = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for name in CODE.findall(plain):
        if not FOREIGN.match(name) and "{" not in name and not exists(re.sub(r"[A-Z]{2,}", "*", name), tracked):
            yield f"found `{name}`; there is no such file"
        elif page.name == "README.md" and page.parent.parent.name == "user" and re.fullmatch(r"[a-z]\w*\.[ch]", name) and \
                not list(page.parent.rglob(name)):
            yield f"found `{name}`; the room has no such file"


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
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")
    tracked = {str(path) for file in files if file for path in [pathlib.PurePath(file), *pathlib.PurePath(file).parents]}
    pages = [ROOT / file for file in files if file.endswith(".md")]
    bad = [f"{page.relative_to(ROOT)}: {fault}" for page in pages for fault in [*faults(page), *unknown_files(page, tracked)]]
    print("\n".join(bad) or f"links: {len(pages)} pages")
    sys.exit(bool(bad) or not pages)


if __name__ == "__main__":
    main()
