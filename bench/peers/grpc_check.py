#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""grpc_check.py ADDRESS:PORT: a call of the echo method by a stock client; the reply must be the message, status OK."""
import os
import sys

import grpc

message = os.urandom(64)
with grpc.insecure_channel(sys.argv[1]) as channel:
    reply = channel.unary_unary("/sluice.demo.Echo/Echo")(message, timeout=10, wait_for_ready=True)
sys.exit(reply != message and "the reply is not the message")
