#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The seed corpus of each fuzz target: inputs with a name of their own are files in tests/fuzz/corpus/TARGET, inputs that
are named by their SHA-1 are members of tests/fuzz/corpus/TARGET.zip.

  corpus.py unpack TARGET DIR      replaces DIR by the members of the archive; fails if a name is not the SHA-1 of its bytes
  corpus.py pack TARGET DIR...     replaces the archive by the inputs in DIR... that are named by their SHA-1
  corpus.py add TARGET FILE...     adds inputs to the archive, named by their SHA-1

The same inputs give the same archive: its members are sorted, and have one fixed time and mode.
"""
import hashlib
import os
import re
import shutil
import sys
import zipfile

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'corpus')


def archive(target):
    return os.path.join(CORPUS, target + '.zip')


def sha1(data):
    return hashlib.sha1(data).hexdigest()


def load(target):
    """Returns the members as a dictionary of name to bytes."""
    if not os.path.exists(archive(target)):
        return {}
    with zipfile.ZipFile(archive(target)) as z:
        inputs = {name: z.read(name) for name in z.namelist()}
    for name, data in inputs.items():
        if name != sha1(data):
            sys.exit(f'{archive(target)}: found member {name}; allowed: {sha1(data)}, the SHA-1 of its bytes')
    return inputs


def store(target, inputs):
    path = archive(target)
    if not inputs:
        if os.path.exists(path):
            os.remove(path)
        return
    with zipfile.ZipFile(path + '.new', 'w') as z:
        for name in sorted(inputs):
            member = zipfile.ZipInfo(name)  # its time is 1980-01-01
            member.create_system = 3  # Unix, which has modes
            member.external_attr = 0o100644 << 16
            z.writestr(member, inputs[name], zipfile.ZIP_DEFLATED, 9)
    os.replace(path + '.new', path)


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def unpack(target, folder):
    inputs = load(target)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, data in inputs.items():
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(data)


def pack(target, *folders):
    inputs = {}
    for folder in folders:
        for name in os.listdir(folder):
            if re.fullmatch('[0-9a-f]{40}', name):
                data = read(os.path.join(folder, name))
                inputs[sha1(data)] = data
    store(target, inputs)


def add(target, *files):
    data = [read(path) for path in files]
    store(target, {**load(target), **{sha1(d): d for d in data}})


if __name__ == '__main__':
    commands = {'unpack': unpack, 'pack': pack, 'add': add}
    if len(sys.argv) < 4 or sys.argv[1] not in commands or (sys.argv[1] == 'unpack' and len(sys.argv) != 4):
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
