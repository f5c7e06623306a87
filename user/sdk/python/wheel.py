#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Packs the Python package and its libraries into a wheel for virtual environments (`make wheel`).

usage: wheel.py BUILD VERSION MACHINE: prints the path of the wheel. The extensions find the
libraries beside them by their run path. Files have the time of SOURCE_DATE_EPOCH, so two wheels of one build are
equal.
"""

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

SUMMARY = "backends of the sluice gateway"


def strip(path):
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["objcopy", "--strip-unneeded", path, stripped.name], check=True)
        return pathlib.Path(stripped.name).read_bytes()


def list_files(build):
    for path in sorted((build / "python" / "sluice").iterdir()):
        if path.is_file():
            yield "sluice/" + path.name, strip(path) if path.suffix == ".so" else path.read_bytes()
    for path in sorted([*build.glob("libsluice-backend.so.*"), *build.glob("libsluice-client.so.*")]):
        yield "sluice/" + path.name, strip(path)


def main(build, version, machine):
    tag = f"cp311-abi3-linux_{machine}"
    info = f"sluice-{version}.dist-info"
    epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800)  # zip cannot store earlier times than 1980
    files = list(list_files(build))
    files.append((f"{info}/METADATA", (
        f"Metadata-Version: 2.1\nName: sluice\nVersion: {version}\nSummary: {SUMMARY}\n"
        "License: Apache-2.0\nRequires-Python: >=3.11\n").encode()))
    files.append((f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: sluice\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()))
    record = ""
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    record += f"{info}/RECORD,,\n"
    files.append((f"{info}/RECORD", record.encode()))
    path = build / "wheel" / f"sluice-{version}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files:
            entry = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print(path)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:4])
