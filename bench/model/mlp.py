# SPDX-License-Identifier: Apache-2.0
"""A multilayer perceptron, 512-2048-2048-16, in NumPy with one BLAS thread: the model of bench-model."""
import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is imported

import numpy as np  # noqa: E402

INPUTS, DTYPE = 512, "<f4"
random = np.random.default_rng(1)
W1, W2, W3 = ((random.standard_normal(shape) / scale).astype(DTYPE)
              for shape, scale in (((INPUTS, 2048), 20), ((2048, 2048), 40), ((2048, 16), 40)))


def infer(rows):
    """Returns one row of 16 logits for each row of 512 inputs."""
    return np.maximum(np.maximum(rows @ W1, 0) @ W2, 0) @ W3
