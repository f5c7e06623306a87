# SPDX-License-Identifier: Apache-2.0
"""documents.py PAGE...: checks the code fences of Markdown pages, and runs those of shell commands.

A fence whose first line is a comment with a file's name (`# app.conf`, `/* echo.c */`) is saved under that name.

  conf     `sluice check --offline` accepts it, completed by what a fragment lacks (complete())
  c        compiles
  python   compiles
  yaml     promtool accepts it as a configuration of Prometheus
  sh       each `make` target, subcommand of `sluice` and option exists; the commands run in the gateway's namespace.
           A comment behind `curl`, `python3` or `./PROGRAM` is a part of the command's output. A fence whose first line is
           `# not run in tests: REASON` is not run.

Prints a line `ok TEXT` or `FAIL TEXT` for each check. Environment: SLUICE, BUILD, NS_PID (a process in the namespaces to
run in), BIN (a folder of commands that come before those of the system).
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
SLUICE, BUILD = os.environ["SLUICE"], os.environ["BUILD"]
NOT_RUN = re.compile(r"# not run in tests: \S.*")
NAMED = re.compile(r"(?:#|/\*|//) ([\w.-]+\.(?:conf|c|py|key|pem))(?: \*/)?$")


def fences(path):
    """Yields (line number, language, text)."""
    language = text = None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            mark = re.match(r"```(\w*)\s*$", line)
            if mark and text is None:
                language, text, start = mark[1], "", number
            elif mark:
                yield start, language, text
                text = None
            elif text is not None:
                text += line
    assert text is None, f"{path}:{start}: found a fence without its end"


def complete(conf):
    """Returns `conf` with what a fragment lacks: an interface, listeners, pools, keys, quotas, a route. Lines keep their numbers."""
    code = re.sub(r"#.*", "", conf)
    added = ""
    if not re.search(r"^interface\b", code, re.M):
        added += 'interface "eth0" { } '
    listeners = set(re.findall(r"^listener (\w+)", code, re.M))
    wanted = set(re.findall(r"\blistener = (\w+)", code)) - listeners
    for port, name in enumerate(sorted(wanted or ({"web"} if not listeners else set())), 7000):
        added += f"listener {name} {{ port = {port} }} "
    pools = set(re.findall(r"^pool ([\w-]+)", code, re.M))
    for name in sorted(set(re.findall(r"\bpool = ([\w-]+)", code)) - pools):
        added += f'pool {name} {{ backend a {{ endpoint = "http://127.0.0.1:8000" }} }} '
    for name in sorted(set(re.findall(r"\bkeys = ([\w-]+)", code)) - set(re.findall(r"^keys ([\w-]+)", code, re.M))):
        added += f'keys {name} {{ file = "/etc/sluice/clients.keys" }} '
    quotas = {name for names in re.findall(r"\bquotas = {([^}]*)}", code) for name in re.findall(r"[\w-]+", names)}
    for name in sorted(quotas - set(re.findall(r"^quota ([\w-]+)", code, re.M))):
        added += f"quota {name} {{ rate = 1/s }} "
    if not re.search(r"^route\b", code, re.M):
        added += 'route "/" { respond { status = 200 } } '
    return added + conf


def run(command, **keywords):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          timeout=180, **keywords)
    return done.returncode, done.stdout


def check_conf(text):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(complete(text))
        file.flush()
        return run([SLUICE, "check", "--offline", "-c", file.name])


def compile_c(text):
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(text)
        file.flush()
        return run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", f"-I{ROOT}/include",
                    "-fsyntax-only", file.name])


def compile_python(text):
    try:
        compile(text, "fence", "exec")
        return 0, ""
    except SyntaxError as error:
        return 1, str(error)


def check_yaml(text):
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(text)
        file.flush()
        return run(["promtool", "check", "config", "--syntax-only", file.name])


def make_targets():
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        names = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^([a-z][\w -]*):(?!=)", file.read(), re.M))))
    return names | {f"bench-{name}" for name in os.listdir(os.path.join(ROOT, "bench"))}


_options = {}


def options(command):
    if command not in _options:
        status, text = run([SLUICE, command, "--help"])
        _options[command] = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", text)) | {"--help"} if status == 0 else None
    return _options[command]


def unknown_words(text):
    """Returns the words of commands that neither the Makefile nor the program knows."""
    bad = []
    code = re.sub(r"(^|\s)#.*", "", re.sub(r"\\\n", " ", text))
    for words in re.findall(r"(?:^|[;&|] *|sudo )make((?: +[\w./=:*-]+)+)", code, re.M):
        bad += [f"make {w}" for w in words.split()
                if "=" not in w and w[0] != "-" and w not in make_targets() and "/" not in w]
    for command, rest in re.findall(r"(?:^|[;&|] *|sudo )sluice +([\w-]+)([^\n;&|]*)", code, re.M):
        known = options(command)
        if known is None:
            bad.append(f"sluice {command}")
        else:
            bad += [f"sluice {command} {o}" for o in re.findall(r"(?<=\s)--?[a-zA-Z][a-z-]*", rest) if o not in known]
    return bad


def check_sh(text, folder):
    bad = unknown_words(text)
    if bad:
        return 1, "not known: " + ", ".join(bad)
    status, out = run(["bash", "-n", "-c", text])
    if status or NOT_RUN.match(text):
        return status, out
    script = "set -eu -o pipefail\n"
    for line in re.sub(r"\\\n", " ", text).splitlines():
        expected = re.match(r"((?:curl |python3 |\./).*?)\s+# (.*)", line)
        if expected:
            script += f"{expected[1]} | tee /dev/stderr | grep -F -- '{expected[2]}' >/dev/null\n"
        else:
            script += line + "\n"
    enter = ["nsenter", "-t", os.environ["NS_PID"], "-m", "-n", f"--wdns={folder}"]
    return run([*enter, "env", f"PATH={os.environ['BIN']}:{os.environ['PATH']}", f"LD_LIBRARY_PATH={BUILD}",
                f"PYTHONPATH={BUILD}/python", "bash", "-x", "-c", script])


def check_page(path, folder):
    failed = 0
    for line, language, text in fences(path):
        named = NAMED.match(text.split("\n", 1)[0])
        if named:
            with open(os.path.join(folder, named[1]), "w", encoding="utf-8") as file:
                file.write(text)
        kinds = {"conf": check_conf, "c": compile_c, "python": compile_python, "yaml": check_yaml,
                 "sh": lambda t: check_sh(t, folder)}
        if language not in kinds:
            continue
        status, out = kinds[language](text)
        print("FAIL" if status else "ok", f"{os.path.relpath(path, ROOT)}:{line}: {language}")
        if status:
            failed += 1
            print("\n".join("     | " + s[:300] for s in out.splitlines()[-30:]))
    return failed


def main():
    failed = 0
    for path in sys.argv[1:]:
        folder = tempfile.mkdtemp(dir=os.environ["PAGES"])
        os.chmod(folder, 0o755)
        failed += check_page(path, folder)
        subprocess.run([os.path.join(os.environ["BIN"], "end-all")], check=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
