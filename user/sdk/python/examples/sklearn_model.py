#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A classifier of scikit-learn, trained at the start on its own data set of handwritten digits.

    sklearn_model.py shm:///run/digits.sock

Each request is an image of 8 by 8 bytes, 0 to 16; each reply the digit, as JSON.
"""
import json
import sys

import numpy as np
import sluice
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

PIXELS = 64
images, digits = load_digits(return_X_y=True)
model = LogisticRegression(max_iter=200, tol=0.01).fit(images / 16, digits)


def handle(batch):
    good = []
    for request in batch:
        if len(request.body) == PIXELS:
            good.append(request)
        else:
            request.reply(b"expected 64 bytes\n", status=400, content_type="text/plain")
    if not good:
        return
    x = np.stack([np.frombuffer(request.body, "u1") for request in good]) / 16
    for request, digit in zip(good, model.predict(x)):
        request.reply(json.dumps({"digit": int(digit)}).encode(), content_type="application/json")


if __name__ == "__main__":
    sluice.Backend(sys.argv[1], handle).run()
