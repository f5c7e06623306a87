# SPDX-License-Identifier: Apache-2.0
"""A grpcio server with grpc.health.v1: probed_grpc.py ADDRESS:PORT FOLDER

The service "app" has the status in FOLDER/grpc.health (1: SERVING, the default).
"""
import sys
from concurrent import futures

import grpc

address, folder = sys.argv[1:]


def check(request, context):
    if request != b"\x0a\x03app":
        context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
    try:
        with open(folder + "/grpc.health") as f:
            return b"\x08" + bytes([int(f.read())])
    except OSError:
        return b"\x08\x01"


server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
    "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(check)}),))
server.add_insecure_port(address)
server.start()
print("listening", flush=True)
server.wait_for_termination()
