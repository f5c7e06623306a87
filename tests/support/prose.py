#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""prose.py [OPTION...] [PATH...]: measures the language rules of the style guide in comments and documents.

  --limits rule      exit 1 if a room breaks a rule (default)
  --limits off       exit 0
  --all              print all places, not ten of each room
  --commits SINCE    check the subjects of the commits after SINCE, too
  --words            print only the number of words in the comments of C files of user, include and bpf

The rules, per room (a folder of user, user/rpc, user/front or tests; include; bpf; bench; all documents):

  who    "who", "whoever", "whom", "nobody", "somebody": at most 0.1 per 1,000 words
  begin  sentences that begin with Of, By, For, To, With, Who, What, Whose, Which or That: at most 3 %
  long   sentences and clauses of more than 25 words: none
  wide   lines of Markdown over 100 columns: none
  words  comments of all C files of user, include and bpf together: at most 60 words in 100 lines

Comments of C, shell, Python and Makefiles count, docstrings, and the text of Markdown. Licence lines, quoted text,
code fences, tables, diagrams and lists of fields do not. Sentences end at ". ", "! " or "? ", at blank lines
and at list items. Clauses end at ";" and ":", too.
"""
import ast
import collections
import io
import pathlib
import re
import subprocess
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ("who", "begin", "long", "wide")
WHO = re.compile(r"\b(?:who(?:ever|m|mever)?|(?:no|some)body)\b", re.I)
BEGIN = re.compile(r"(?:Of|By|For|To|With|Who|What|Whose|Which|That)\b(?!')", re.I)
WHO_RATE, BEGIN_SHARE, MAX_WORDS, COLUMNS, SUBJECT, C_WORDS = 0.1, 3.0, 25, 100, 72, 60
SKIP = re.compile(r"^(?:vendor/|tests/fuzz/corpus/|bench/results/)")
C_TOKEN = re.compile(r'''"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|/\*.*?\*/|//[^\n]*''', re.S)
LICENCE = re.compile(r"SPDX-License-Identifier|^\s*Copyright\b")
DIAGRAM = re.compile(r"[\u2190-\u21ff\u2500-\u25ff]|--+>|<--+|\+--|==+>|^\s*[|+].*[|+]\s*$|[|].*[|].*[|]")
COLUMN = re.compile(r"^\s*\S.*?(?:\s{2,}|\t)(?=\S)")
ITEM = re.compile(r"^\s*(?:[-*+]|\(?[0-9]+[.)]|\(?[a-z]\))\s+(?=\S)")
QUOTED = re.compile(r"``.+?``|`[^`]+`|\"[^\"]{1,300}\"|\u201c[^\u201d]{1,300}\u201d", re.S)
SENTENCE = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\betc\.)(?<!\bal\.)(?:(?<=[.!?])[)'\"]*\s+(?=[A-Z(\"`\x01])|(?<=[a-z)][.!?])\s+(?=[a-z]))")
CLAUSE = re.compile(r"(?<=[;:])\s+")
WORD = re.compile(r"[A-Za-z][A-Za-z'_]*")
NO_VERB = re.compile(r"(?:ed|ing|[^s]s)$")
VERBS = {"alias", "bias", "bring", "canvas", "embed", "exceed", "feed", "focus", "need", "ping", "proceed", "ring",
         "seed", "shed", "speed", "spring", "string", "succeed", "swing"}
# A comment or a page: number of the first line, and the lines without comment marks.
Block = collections.namedtuple("Block", "line lines")


def c_comments(text):
    """Blocks of a C file: block comments, and runs of // comments."""
    line, at, end, run = 1, 0, 0, None
    for m in C_TOKEN.finditer(text):
        line += text.count("\n", at, m.start())
        gap, at, end = text[end:m.start()], m.start(), m.end()
        token = m.group(0)
        if token.startswith("/*"):
            body = token[2:-2].lstrip("*").rstrip("*").split("\n")
            yield Block(line, [body[0]] + [re.sub(r"^\s*\*(?: |$)", "", s) for s in body[1:]])
            run = None
        elif token.startswith("//"):
            if run is not None and not gap.strip() and line == run.line + len(run.lines):
                run.lines.append(token[2:])
                continue
            if run is not None:
                yield run
            run = Block(line, [token[2:]])
    if run is not None:
        yield run


def hash_comments(text):
    """Blocks of a shell script or a Makefile: runs of lines that are comments; no bodies of here documents."""
    run, end = None, None
    for i, s in enumerate(text.split("\n"), 1):
        if end is not None:
            end = None if s.strip() == end else end
            continue
        m = re.search(r"<<-?\s*['\"\\]?(\w+)['\"]?", s)
        if m and not s.lstrip().startswith("#"):
            end = m.group(1)
        own = re.match(r"^\s*@?#(?!!)\s?(.*)$", s)
        behind = re.match(r"^[^'\"#]*(?:'[^']*'|\"[^\"]*\"|[^'\"#])*\s##?\s(.*)$", s) if not own else None
        if own:
            if run is None:
                run = Block(i, [])
            run.lines.append(own.group(1))
            continue
        if run is not None:
            yield run
            run = None
        if behind:
            yield Block(i, [behind.group(1)])
    if run is not None:
        yield run


def python_comments(text):
    run = None
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type != tokenize.COMMENT or t.string.startswith("#!"):
            continue
        row, alone = t.start[0], not t.line[:t.start[1]].strip()
        if run is not None and alone and row == run.line + len(run.lines):
            run.lines.append(t.string[1:])
            continue
        if run is not None:
            yield run
        run = Block(row, [t.string[1:]])
    if run is not None:
        yield run
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                yield Block(first.lineno, first.value.value.split("\n"))


def markdown(text):
    """One block: the page without code fences and tables, which leave blank lines."""
    lines, fence = [], None
    for s in text.split("\n"):
        m = re.match(r"^\s*(```+|~~~+)", s)
        if fence is None and m:
            fence = m.group(1)
            lines.append("")
        elif fence is not None:
            if m and m.group(1).startswith(fence):
                fence = None
            lines.append("")
        elif re.match(r"^\s*\|", s) or re.match(r"^(?: {4}|\t)\s*\S", s) and lines[-1:] in ([], [""]):
            lines.append("")
        elif re.match(r"^#+ ", s):
            lines += ["\x00" + re.sub(r"^#+ ", "", s)]
        else:
            lines.append(re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", s))
    yield Block(1, lines)


def wide_lines(text):
    fence = False
    for i, s in enumerate(text.split("\n"), 1):
        if re.match(r"^\s*(```+|~~~+)", s):
            fence = not fence
        elif not fence and len(s) > COLUMNS and not s.lstrip().startswith("|") and " " in s.strip():
            yield i, s


def kind(path, first_line=""):
    if path.endswith((".c", ".h", ".proto")):
        return c_comments
    if path.endswith(".py") or re.match(r"#!.*python", first_line):
        return python_comments
    if path.endswith(".md"):
        return markdown
    if path.endswith((".sh", ".mk")) or path.split("/")[-1] == "Makefile" or re.match(r"#!.*\b(?:ba)?sh\b", first_line):
        return hash_comments
    return None


def room(path):
    """The room of a file: as deep as user/rpc and user/front go, else two folders."""
    if path.endswith(".md"):
        return "documents"
    parts = path.split("/")[:-1]
    if not parts:
        return "(top)"
    if parts[0] == "user" and len(parts) > 2 and parts[1] in ("rpc", "front"):
        return "/".join(parts)
    return "/".join(parts[:2]) if parts[0] in ("user", "tests") else parts[0]


def paragraphs(block):
    """(line, text) of each paragraph and list item; licence lines, diagrams and rows of tables are left out."""
    out, start, column = [], block.line, None
    for i, s in enumerate(block.lines):
        indent = len(s) - len(s.lstrip())
        row = COLUMN.match(s.expandtabs(8)) if not ITEM.match(s) else None
        cut = not s.strip() or LICENCE.search(s) or DIAGRAM.search(s) or row is not None
        if not cut and column is not None:
            cut = indent >= column
        column = len(row.group(0)) if row is not None else column if cut and s.strip() else None
        head = s.startswith("\x00")
        if cut or head or ITEM.match(s):
            if out:
                yield start, "\n".join(out)
            out = []
        if cut:
            continue
        if not out:
            start = block.line + i
        out.append(ITEM.sub("", s).replace("\x00", ""))
        if head:
            yield start, out[0]
            out = []
    if out:
        yield start, "\n".join(out)


def without_quotes(text):
    """Quoted text becomes one word; its line breaks stay, so that lines can be counted."""
    return QUOTED.sub(lambda m: "\x01q" + "\n" * m.group(0).count("\n"), text)


def sentences(line, text):
    """(line, sentence) of a paragraph whose first line is `line`."""
    text, at = without_quotes(text), 0
    for m in list(SENTENCE.finditer(text)) + [None]:
        end = m.start() if m else len(text)
        if text[at:end].strip():
            lead = len(text[at:end]) - len(text[at:end].lstrip())
            yield line + text.count("\n", 0, at + lead), text[at:end].strip()
        at = m.end() if m else end


def word_cnt(text):
    return sum(1 for w in text.split() if re.search(r"\w", w))


class Room:
    def __init__(self):
        self.words = self.sentences = 0
        self.counts = dict.fromkeys(RULES, 0)
        self.places = []  # (weight, rule, path, line, text)

    def found(self, rule, path, line, text, weight=1):
        self.counts[rule] += 1
        self.places.append((weight, rule, path, line, " ".join(text.replace("\x01q", "\"...\"").split())))

    def allowed(self):
        return {"who": int(WHO_RATE * self.words / 1000), "begin": int(BEGIN_SHARE * self.sentences / 100),
                "long": 0, "wide": 0}


def measure(path, text, into):
    reader = kind(path, text.split("\n", 1)[0])
    if reader is None:
        return
    for block in reader(text):
        for line, paragraph in paragraphs(block):
            into.words += len(WORD.findall(paragraph))
            for at, s in sentences(line, paragraph):
                into.sentences += 1
                for m in WHO.finditer(s):
                    into.found("who", path, at + s.count("\n", 0, m.start()), s, 2)
                if BEGIN.match(s):
                    into.found("begin", path, at, s)
                for clause in CLAUSE.split(s):
                    n = word_cnt(clause)
                    if n > MAX_WORDS:
                        into.found("long", path, at + s.count("\n", 0, s.find(clause)), f"{n} words: {clause}", n)
    if reader is markdown:
        for line, s in wide_lines(text):
            into.found("wide", path, line, f"{len(s)} columns: {s}")


def tracked(paths):
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "--", *paths], check=True, capture_output=True,
                           text=True).stdout.split("\n")
    for name in sorted(set(filter(None, names))):
        if SKIP.match(name) or not (ROOT / name).is_file() or (ROOT / name).is_symlink():
            continue
        if kind(name) or "." not in name.split("/")[-1]:
            text = (ROOT / name).read_bytes()
            if b"\0" not in text[:4096]:
                yield name, text.decode(errors="replace")


def c_words(files):
    """Returns the number of words in the comments of the product's C files, without licence lines, and of all lines."""
    product = [text for name, text in files
               if name.endswith((".c", ".h")) and name.startswith(("user/", "include/", "bpf/"))]
    return (sum(len(s.split()) for text in product for block in c_comments(text) for s in block.lines
                if not LICENCE.search(s)), sum(text.count("\n") for text in product))


def subject_mistake(subject):
    if re.match(r"(?:Merge|Revert) ", subject):
        return None
    if len(subject) > SUBJECT:
        return f"{len(subject)} characters, at most {SUBJECT}"
    m = re.match(r"[\w./*,{} -]+: (\S+)", subject)
    if not m:
        return "form: `area: verb object`"
    verb = m.group(1)
    if not re.match(r"[a-z][a-z-]*$", verb) or verb not in VERBS and NO_VERB.search(verb):
        return f"\"{verb}\" is no imperative"
    return None


def bad_commits(since):
    out = subprocess.run(["git", "-C", str(ROOT), "log", "--format=%h %s", f"{since}..HEAD"], capture_output=True,
                         text=True)
    if out.returncode:  # a shallow clone
        print(f"commits: {since} is not in this clone; subjects are not checked")
        return []
    pairs = [s.split(" ", 1) for s in out.stdout.strip().split("\n") if " " in s]
    return [f"commit {h}: {why}: {s}" for h, s in pairs if (why := subject_mistake(s))]


def options(argv):
    opts, paths, it = {"limits": "rule", "commits": []}, [], iter(argv)
    for a in it:
        if a in ("--all", "--words"):
            opts[a[2:]] = True
        elif a == "--limits":
            opts["limits"] = next(it, "")
        elif a == "--commits":
            opts["commits"].append(next(it, ""))
        elif a.startswith("-"):
            sys.exit(__doc__)
        else:
            paths.append(a)
    if opts["limits"] not in ("rule", "off"):
        sys.exit(f"prose.py: found --limits {opts['limits']}; allowed: rule, off")
    return opts, paths


def main(argv):
    opts, paths = options(argv)
    files = list(tracked([str(pathlib.Path(p).resolve()) for p in paths] or ["."]))
    words, lines = c_words(files)
    if "words" in opts:
        print(f"{words} words, {lines} lines")
        return 0
    rooms = collections.defaultdict(Room)
    for name, text in files:
        measure(name, text, rooms[room(name)])
    bad = []
    print(f"{'room':24} {'words':>7} {'who/1000':>9} {'begin %':>8} {'long':>5} {'wide':>5}")
    for name, r in sorted(rooms.items()):
        allowed = r.allowed()
        broken = [k for k in RULES if r.counts[k] > allowed[k]]
        if broken:
            bad.append((name, r, broken))
        print(f"{name:24} {r.words:7} {1000 * r.counts['who'] / max(r.words, 1):9.2f} "
              f"{100 * r.counts['begin'] / max(r.sentences, 1):8.1f} {r.counts['long']:5} {r.counts['wide']:5}"
              f"{'  over: ' + ' '.join(broken) if broken else ''}")
    print(f"comments of C files: {words} words, {lines} lines")
    status = bool(bad)
    for name, r, broken in bad:
        places = [p for p in sorted(r.places, key=lambda p: (-p[0], p[2:4])) if p[1] in broken]
        if "all" in opts:
            places.sort(key=lambda p: p[2:4])
        for _, rule, path, line, text in places if "all" in opts else places[:10]:
            print(f"{path}:{line}: {rule}: {text if len(text) < 240 else text[:240] + ' ...'}")
    if not paths and 100 * words > C_WORDS * lines:
        print(f"comments of C files: found {words} words in {lines} lines; allowed: {C_WORDS * lines // 100} words")
        status = True
    for since in opts["commits"]:
        for line in bad_commits(since):
            print(line)
            status = True
    return int(status and opts["limits"] != "off")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
