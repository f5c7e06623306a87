#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A model in NumPy: a layer of 16 inputs and 4 outputs, computed for a batch at once.

    numpy_model.py shm:///run/model.sock

Each request is 16 little-endian float32, each reply 4 of them.
"""
import sys

import numpy as np
import sluice

INPUTS, OUTPUTS = 16, 4
weights = np.random.default_rng(1).standard_normal((INPUTS, OUTPUTS)).astype("<f4")


def handle(batch):
    x = batch.stack("<f4", (INPUTS,))
    batch.reply(np.maximum(x @ weights, 0), content_type="application/octet-stream")


if __name__ == "__main__":
    sluice.Backend(sys.argv[1], handle, max_batch=256).run()
