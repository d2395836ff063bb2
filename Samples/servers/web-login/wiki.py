#!/usr/bin/env python3
"""An application without a sign-in of its own, which believes the field X-User of the proxy: wiki.py PORT"""
import http.server
import sys


class Wiki(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        user = self.headers.get_all("X-User") or ["nobody"]
        text = f"The wiki of {', '.join(user)}, with {len(self.headers.get_all('Cookie') or [])} cookies.\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Wiki).serve_forever()
