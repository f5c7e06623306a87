#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A model in NumPy: a layer of 16 inputs and 4 outputs, for a batch in one product.

    numpy_model.py shm:///run/model.sock

Each request is 16 little-endian float32, each reply 4 of them.
"""
import sys

import numpy as np
import sluice

INPUTS, OUTPUTS = 16, 4
weights = np.random.default_rng(1).standard_normal((INPUTS, OUTPUTS)).astype("<f4")


def handle(batch):
    x = np.zeros((len(batch), INPUTS), "<f4")
    for row, request in zip(x, batch):
        if len(request.body) != row.nbytes:
            request.reply(b"expected 16 float32\n", status=400, content_type="text/plain")
            continue
        row[:] = np.frombuffer(request.body, "<f4")
    y = np.ascontiguousarray(np.maximum(x @ weights, 0))
    for row, request in zip(y, batch):
        if request.is_open:
            request.reply(row, content_type="application/octet-stream")


if __name__ == "__main__":
    sluice.Backend(sys.argv[1], handle, max_batch=256).run()
