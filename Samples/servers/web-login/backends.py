#!/usr/bin/env python3
"""What is behind the web application: an API that takes its access tokens, and a wiki that believes the field X-User of the proxy.

Usage: backends.py PORT
"""
import http.server
import sys
import time

SIZE = 256 * 1024 * 1024


class Backends(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            self.respond()
        except ConnectionError:
            pass  # The client has had enough.

    def respond(self):
        if self.path.startswith("/wiki/"):
            user = ", ".join(self.headers.get_all("X-User", []) + self.headers.get_all("X_User", []) or ["an unknown user"])
            return self.answer("text/plain", f"The wiki of {user}, with {len(self.headers.get_all('Cookie') or [])} cookies.\n".encode())
        if not self.headers.get("Authorization", "").startswith("Bearer ") or self.headers.get("Cookie"):
            return self.send_error(401)
        if self.path == "/events":
            self.answer("text/event-stream", None)
            for number in range(3):
                self.wfile.write(f"data: {number}\n\n".encode())
                time.sleep(0.3)
        elif self.path == "/large":
            self.answer("application/octet-stream", None)
            part = bytes(64 * 1024)
            for _ in range(SIZE // len(part)):
                self.wfile.write(part)
        else:
            self.send_error(404)

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Backends).serve_forever()
