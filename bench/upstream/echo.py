#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The C program `echo` in Python: echo.py ENDPOINT"""
import sys

import sluice


def handle(batch):
    for request in batch:
        request.reply(request.body)


sluice.Backend(sys.argv[1], handle, max_batch=256).run()
