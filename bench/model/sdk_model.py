#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The model as a backend of the SDK, in batches: sdk_model.py ENDPOINT"""
import sys

import mlp
import sluice


def handle(batch):
    return mlp.infer(batch.stack(mlp.DTYPE, (mlp.INPUTS,)))


sluice.Backend(sys.argv[1], handle, max_batch=64).run()
