#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""undocumented.py [--count] [FILE...]: fails if a function of a header has no comment.

Looks at prototypes and inline functions in headers of user, include and bpf. The comment stands directly above. It
covers the functions below it up to a blank line, or a definition of a type or macro. The name of a file alone is no
comment. Calls of macros are no functions.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKEN = re.compile(r'''/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:\\\n|[^\n])*?(?=/\*|\n)'''
                   r'''|[{};()]|\n''', re.S | re.M)
CPLUSPLUS = re.compile(r"#ifdef __cplusplus\n.*?#endif", re.S)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)|\b(?:SEC|SL_[A-Z_]+)\s*\([^()]*\)", re.S)
# Declarations that a comment covers together with the functions below them.
NEUTRAL = re.compile(r"\s*(?:typedef\b|extern\b|enum\s*\{\}\s*$|struct\s+\w+\s*$)")
LABEL = re.compile(r"/\*\s*[\w/]+\.c(?:, [\w/]+\.c)*\.?\s*\*/")
FUNCTION = re.compile(r"(?!\s*(?:typedef|_Static_assert|return)\b)[^=(]*[\w*]\s*[\s*](\w+)\s*\((?!\s*\*)")


def functions(text):
    """(line, name, documented) of each function that a header declares or defines."""
    text = CPLUSPLUS.sub(lambda m: "\n" * m.group(0).count("\n"), text)
    covered, named = False, set()
    line, at, depth, parens = 1, 0, 0, 0
    start, head, body = 0, "", False  # declaration: first line, text, whether its braces are those of a function
    fresh = True  # nothing stands on the line so far

    def found():
        m = FUNCTION.match(ATTRIBUTE.sub(" ", head))
        return m.group(1) if m else None

    for m in TOKEN.finditer(text):
        token, gap = m.group(0), text[at:m.start()]
        at = m.end()
        if depth == 0 and gap.strip():
            start = start or line
            head += gap
            fresh = False
        if token == "\n":
            if depth == 0 and fresh and not head.strip():
                covered = False
            fresh = True
            head += " " if head else ""
        elif token.startswith(("/*", "//")):
            if depth == 0 and not head.strip() and fresh:
                covered = not LABEL.fullmatch(token)
            fresh = False
        elif token.lstrip().startswith("#"):
            covered = covered and not re.match(r"\s*#\s*define\b", token)
            fresh = False
        elif token == "{":
            if depth == 0:
                body = found()
                head += "{}"
            depth += 1
        elif token == "}":
            depth -= 1
            fresh = False
            if depth == 0 and body:
                yield start, body, covered or body in named
                named.add(body)
                start, head, body = 0, "", False
        elif depth == 0:
            if token in "()":
                parens += 1 if token == "(" else -1
                head += token
            elif token == ";" and parens == 0:
                name = found()
                if name:
                    yield start, name, covered or name in named
                    named.add(name)
                elif not NEUTRAL.match(head):
                    covered = False
                start, head = 0, ""
            elif token != ";":
                head += token
        line += token.count("\n")


def headers():
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "user/*.h", "include/*.h", "bpf/*.h"], check=True,
                           capture_output=True, text=True).stdout.split()
    return [ROOT / n for n in names if (ROOT / n).is_file()]


def main(argv):
    paths = [pathlib.Path(a).resolve() for a in argv if not a.startswith("-")] or headers()
    cnt = missing = 0
    for path in paths:
        for line, name, documented in functions(path.read_text(encoding="utf-8")):
            cnt += 1
            if not documented:
                missing += 1
                print(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}: {name}() has no comment")
    if cnt == 0:
        sys.exit("undocumented: no functions found")
    if "--count" in argv:
        print(f"{cnt} functions, {missing} without a comment")
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
