#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py: do the tests notice when the code is wrong? Changes one place at a time and runs the tests that link it.

  SEED=1 N=60 FILES="user/tcp user/core" tests/support/mutate.py      (make mutate)

SEED   of the sample, so that a run can be repeated     N      how many mutants
FILES  files or folders to take them from               JOBS   of make (default: processors)
FIRST  of the sample to begin with, to go on with a run that was ended

It works in a copy of the committed tree, so the checkout is not touched. A mutant is killed when the compiler refuses it,
or a test of the layers unit, stack or rpc does, twice: of the rooms that may include the file's, its own first. The
survivors are listed with their change: some change nothing that a caller could see, the others are tests that are missing.
"""
import ctypes
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("SEED") or 1)
COUNT = int(os.environ.get("N") or 60)
FIRST = int(os.environ.get("FIRST") or 1)
FILES = (os.environ.get("FILES") or "user/tcp user/front user/core user/batch user/rpc user/wire user/udp").split()
PR_SET_CHILD_SUBREAPER = 36
JOBS = os.environ.get("JOBS") or str(os.cpu_count())
ROOM_ORDER = re.search(r"^MODULES\s*:=\s*(.*)$", (ROOT / "Makefile").read_text(), re.M).group(1).split()
# What each room may include: programs link more, but do not come across the rest.
ROOMS_OF = {room: set(re.sub(r"/\S*", "", known).split()) for room, known in
            re.findall(r'allow\["(\w+)"\] = "(.*)"', (ROOT / "tests/support/layers.sh").read_text())}

SWAPS = [
    (r"(?<![<>=!-])<(?![<=])", "<="), (r"(?<![<>-])>(?![>=])", ">="), (r"<=", "<"), (r">=", ">"),
    (r"==", "!="), (r"!=", "=="), (r"&&", "||"), (r"\|\|", "&&"),
    (r" \+ ", " - "), (r" - ", " + "), (r"\+\+", "--"), (r" \+= ", " -= "), (r" -= ", " += "),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"(?<=[ (])!(?=[\w(])", ""),
    (r"(?<=return )0(?=;)", "1"), (r" & ", " | "), (r"\b1\b", "2"),
]


def code_lines(path):
    """Lines that hold code inside functions, as (index, text): comments, strings and directives left out."""
    inside, comment = False, False
    for i, line in enumerate(path.read_text().split("\n")):
        if line == "{":
            inside = True
        elif line.startswith("}"):
            inside = False
        if "/*" in line and "*/" not in line:
            comment = True
        usable = inside and not comment and not line.strip().startswith(("/*", "*", "#", "case"))
        if "*/" in line:
            comment = False
        if usable and '"' not in line and "/*" not in line and "_Static_assert" not in line:
            yield i, line


def candidates():
    for name in FILES:
        top = ROOT / name
        for path in [top] if top.is_file() else sorted(top.rglob("*.c")):
            for i, line in code_lines(path):
                for pattern, into in SWAPS:
                    for m in re.finditer(pattern, line):
                        yield path.relative_to(ROOT), i, line[:m.start()] + into + line[m.end():]
                if re.fullmatch(r"\t+[a-z_]\w*(\(|->|\.|\+\+| [-+|&]?= ).*;", line) and "return" not in line:
                    yield path.relative_to(ROOT), i, re.match(r"\t+", line).group(0) + ";"


def tests_of(tree, path):
    """Test programs of the rooms that know the file's, its own first."""
    own = path.parts[1]
    for room in ROOM_ORDER[ROOM_ORDER.index(own):]:
        if room != own and own not in ROOMS_OF[room]:
            continue
        found = [f"build/tests/{layer}/{room}/{src.stem}" for layer in ("unit", "stack", "rpc")
                 for src in sorted((tree / "tests" / layer / room).glob("test_*.c"))]
        if found:
            yield found


def end_strays():
    """Each test has a process group of its own, and one that loops outlives its program: then it is our child."""
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
    while strays := [int(pid) for pid in children.read_text().split()]:
        for pid in strays:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def run(tree, *command, timeout=180):
    """Whether it ended well, and what it said."""
    env = dict(os.environ, CK_DEFAULT_TIMEOUT="20", CK_FORK="yes")
    # A program that hangs is ended with all that it has started.
    process = subprocess.Popen(command, cwd=tree, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        said, _ = process.communicate(timeout=timeout)
        return process.returncode == 0, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        end_strays()
        return False, process.communicate()[0] + f"\nno end within {timeout} s"
    finally:
        end_strays()


def build(tree, programs):
    return run(tree, "make", "-j", JOBS, "DEBUG=1", "CFLAGS=-O1 -g0", *programs, timeout=900)


def verdict(tree, path):
    """Returns the test that noticed, and its output; None: no test did. A busy machine may fail a test once, not twice."""
    for programs in tests_of(tree, path):
        # Tests of the RPC start the programs that ship.
        built, said = build(tree, programs + ["all"] * any("/tests/rpc/" in p for p in programs))
        if not built:
            return "the compiler", said
        for program in programs:
            if not run(tree, program)[0]:
                passed, said = run(tree, program)
                if not passed:
                    return program[len("build/tests/"):], said
    return None, ""


def main():
    sample = list(candidates())
    random.Random(SEED).shuffle(sample)
    sample = sample[FIRST - 1:COUNT]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    tree = pathlib.Path(tempfile.mkdtemp(prefix="sl-mutate-"))
    killed, survivors, began = 0, [], time.time()
    try:
        subprocess.run(f"git archive HEAD | tar -x -C {tree}", shell=True, cwd=ROOT, check=True)
        for path in {p.parts[1]: p for p, _, _ in sample}.values():
            by, said = verdict(tree, path)
            if by:
                sys.exit(f"{said}\nmutate: {by} refuses the tree as it is")
        for n, (path, at, changed) in enumerate(sample, FIRST):
            original = (tree / path).read_text()
            lines = original.split("\n")
            before = lines[at]
            lines[at] = changed
            (tree / path).write_text("\n".join(lines))
            by, _ = verdict(tree, path)
            (tree / path).write_text(original)
            print(f"{n:3}/{COUNT} {'killed by ' + by if by else 'SURVIVED':40} {path}:{at + 1}", flush=True)
            if by:
                killed += 1
            else:
                survivors.append((path, at + 1, before.strip(), changed.strip()))
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    for path, line, before, after in survivors:
        print(f"{path}:{line}\n    - {before}\n    + {after}")
    print(f"mutate: seed {SEED}: {killed} of {len(sample)} killed in {time.time() - began:.0f} s")


main()
