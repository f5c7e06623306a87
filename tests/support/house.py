#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""house.py [--list]: the figures of the house, a line each, with the limit where there is one.

  longest function, longest file      of user/, bpf/, include/
  static functions used once                   of the static functions in .c files that are called by name: helpers with
                                               one call. What is only given to others by its address (an entry of a table
                                               of operations, a callback) has its name for them: it is in neither count;
                                               behind it the same with those, each mention counted as a use
  files in circles                    per room: files whose functions need each other, both ways
  duplicates                          runs of six or more equal lines in product code

The walk of a small GET is walk.py's. A run over the tree takes about two seconds. --list names what is counted. It
judges nothing: exit status 0.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMITS = {"function": 60, "file": 600, "helpers": 50, "circles": {"core": 0, "tcp": 0, "rpc": 2, "gateway": 0}, "duplicates": 0}
DEFINITION = re.compile(r"^(static )?(?:inline )?[\w\s*]*?\b(\w+)\([^;]*$")
CALLABLE = re.compile(r"\b([a-z_]\w+)\b")
ENTRY = re.compile(r"\.\w+ = [a-z]\w*,$")  # of a table of operations


def sources():
    for top in ("user", "bpf", "include"):
        yield from sorted((ROOT / top).rglob("*.[ch]"))


def without_comments(text):
    """What looks like the begin of one in a text or a character is none."""
    kept = lambda m: m.group(0) if m.group(0)[0] in "\"'" else "\n" * m.group(0).count("\n")
    return re.sub(r'''"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|/\*.*?\*/''', kept, text, flags=re.S)


def without_texts(text):
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', text)


def functions(text):
    """(name, static, first line, lines) of each definition: its brace stands in the first column."""
    lines = text.split("\n")
    start = None
    for i, line in enumerate(lines):
        if line == "{":
            start = i
        elif line.startswith("}") and start is not None:
            head = i
            head = start - 1
            while head > 0 and not re.match(r"^[A-Za-z_]", lines[head]):
                head -= 1
            m = DEFINITION.match(" ".join(lines[head:start]))
            if m and not lines[head].startswith(("struct {", "enum", "union {")):
                yield m.group(2), lines[head].startswith("static"), head + 1, i - start
            start = None


class House:
    def __init__(self):
        self.texts = {p.relative_to(ROOT): without_comments(p.read_text()) for p in sources()}
        self.files = {p: without_texts(t) for p, t in self.texts.items()}
        self.defs = {p: list(functions(t)) for p, t in self.files.items()}

    def longest_function(self):
        return max((n, f"{p}:{line} {name}") for p, fs in self.defs.items() for name, _, line, n in fs)

    def longest_file(self):
        return max((len((ROOT / p).read_text().splitlines()), str(p)) for p in self.files)

    def helpers_used_once(self):
        """A call is the name with a bracket that is no member's; the definition and declarations look alike, and go."""
        once, total, mentioned_once, static_cnt = [], 0, 0, 0
        for p, fs in self.defs.items():
            if p.suffix != ".c":
                continue
            words = re.sub(r"^static [^=;{}]*?\);", "", self.files[p], flags=re.M)
            calls = collections.Counter(re.findall(r"(?<![.>\w])([a-z_]\w+)\(", words))
            given = collections.Counter(re.findall(r"(?<=[=,({&?:])\s*([a-z_]\w+)(?=\s*[,;)}:])", words))
            mentions = collections.Counter(CALLABLE.findall(words))
            for name, static, line, _ in fs:
                static_cnt += static
                mentioned_once += static and mentions[name] == 2  # the other one is its definition
                if static and calls[name] > 1:
                    total += 1
                    if calls[name] == 2 and not given[name]:
                        once.append(f"{p}:{line} {name}")
        return once, total, 100 * mentioned_once / static_cnt

    def circles(self):
        """Per room the files that reach each other; a function belongs to the .c that defines it."""
        rooms = collections.defaultdict(dict)
        for p, fs in self.defs.items():
            if p.parts[0] == "user" and p.suffix == ".c":
                for name, static, _, _ in fs:
                    if not static:
                        rooms[p.parts[1]][name] = p
        found = {}
        for room, owner in sorted(rooms.items()):
            graph = collections.defaultdict(set)
            for p in {q for q in self.files if q.parts[:2] == ("user", room) and q.suffix == ".c"}:
                for word in set(CALLABLE.findall(self.files[p])):
                    if word in owner and owner[word] != p:
                        graph[p].add(owner[word])
            members = set().union(*[c for c in components(graph) if len(c) > 1], set())
            if members:
                found[room] = sorted(map(str, members))
        return found

    def duplicates(self, run=6):
        """Lists of texts differ by their texts; tables of operations name functions of their own files: no lines that
        one could write once."""
        seen, pairs = {}, {}
        for p, text in self.texts.items():
            kept = [(i, re.sub(r"\s+", " ", line.strip())) for i, line in enumerate(text.split("\n"), 1)]
            kept = [(i, s) for i, s in kept if len(s) > 3 and not s.startswith("#include") and not ENTRY.match(s)]
            for k in range(len(kept) - run + 1):
                key = tuple(s for _, s in kept[k:k + run])
                here = (p, kept[k][0], k)
                other = seen.setdefault(key, here)
                if other is here or (other[0] == p and here[2] - other[2] < run):
                    continue
                # One pair for a run, however long it is.
                if (other[0], other[2] - 1, p, k - 1) not in pairs:
                    print_at = f"{p}:{here[1]} ~ {other[0]}:{other[1]}"
                    pairs[(other[0], other[2], p, k)] = print_at
                else:
                    pairs[(other[0], other[2], p, k)] = None
        return [v for v in pairs.values() if v]


def components(graph):
    """Tarjan's strongly connected components."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in graph[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            part = set()
            while True:
                w = stack.pop()
                on.discard(w)
                part.add(w)
                if w == v:
                    break
            out.append(part)

    for v in list(graph):
        if v not in index:
            visit(v)
    return out


def main():
    house = House()
    listing = "--list" in sys.argv

    def row(text, value, limit, names=()):
        over = limit is not None and value > limit
        print(f"{'OVER' if over else 'ok':4} {text}{f' (at most {limit})' if limit is not None else ''}")
        for n in names if listing else ():
            print(f"       {n}")

    n, where = house.longest_function()
    row(f"longest function: {n} lines, {where}", n, LIMITS["function"])
    n, where = house.longest_file()
    row(f"longest file: {n} lines, {where}", n, LIMITS["file"])
    once, total, with_given = house.helpers_used_once()
    share = 100 * len(once) / total
    row(f"static functions used once: {share:.1f} %, {len(once)} of {total}; with callbacks and entries "
        f"of tables {with_given:.1f} %", share, LIMITS["helpers"], once)
    circles = house.circles()
    for room in sorted(set(circles) | set(LIMITS["circles"])):
        members = circles.get(room, [])
        row(f"files in circles, {room}: {len(members)}", len(members), LIMITS["circles"].get(room), members)
    pairs = house.duplicates()
    row(f"duplicates: {len(pairs)}", len(pairs), LIMITS["duplicates"], pairs)


main()
