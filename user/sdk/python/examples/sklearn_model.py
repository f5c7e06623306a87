#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A classifier of scikit-learn, trained at start on its data set of handwritten digits.

    sklearn_model.py shm:///run/digits.sock

Each request is an image of 8 by 8 bytes, 0 to 16; each reply the digit, as JSON.
"""
import json
import sys

import sluice
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

PIXELS = 64
images, digits = load_digits(return_X_y=True)
model = LogisticRegression(max_iter=200, tol=0.01).fit(images / 16, digits)


def handle(batch):
    x = batch.stack("u1", (PIXELS,)) / 16
    if not batch:
        return
    replies = [json.dumps({"digit": int(digit)}).encode() for digit in model.predict(x)]
    batch.reply(replies, content_type="application/json")


if __name__ == "__main__":
    sluice.Backend(sys.argv[1], handle).run()
