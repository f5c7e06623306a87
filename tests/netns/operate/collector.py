# SPDX-License-Identifier: Apache-2.0
"""An OpenTelemetry collector, or a server, for trace.sh: collector.py collector FOLDER | collector.py server

The collector appends each span to FOLDER/spans, one per line. FOLDER/mode says how the next requests are answered: a status, "silent"
(never) or "garbage". The server answers with the fields of its request, or by 500 at /fail.
"""
import http.server
import json
import sys
import time

folder = sys.argv[2] if len(sys.argv) > 2 else None


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        with open(folder + "/mode") as f:
            mode = f.read().strip()
        if mode == "silent":
            time.sleep(60)
            return
        text = self.rfile.read(int(self.headers["content-length"]))
        with open(folder + "/asked", "a") as f:
            f.write(mode + "\n")
        if mode == "garbage":
            self.wfile.write(b"\0x" * 100000)
            return
        if mode == "200":
            assert self.path == "/v1/traces" and self.headers["content-type"] == "application/json"
            (resource,) = json.loads(text)["resourceSpans"]
            assert resource["resource"]["attributes"][0] == {"key": "service.name", "value": {"stringValue": "sluice"}}
            (scope,) = resource["scopeSpans"]
            with open(folder + "/spans", "a") as f:
                f.writelines(json.dumps(s) + "\n" for s in scope["spans"])
        self.send_response(int(mode))
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *a):
        pass


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = json.dumps([[k.lower(), v] for k, v in self.headers.items()]).encode()
        self.send_response(500 if self.path.startswith("/fail") else 200)
        if self.path == "/own":
            self.send_header("x-request-id", "of-the-server")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *a):
        pass


port, handler = (8000, Server) if sys.argv[1] == "server" else (4318, Collector)
httpd = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
print("listening", flush=True)
httpd.serve_forever()
