#!/usr/bin/env python3
"""The backends of the web application: an API that accepts its access tokens, and a wiki that trusts the proxy's header field X-User.

Usage: backends.py PORT
"""
import base64
import hashlib
import http.server
import json
import os
import sys
import time

MIB = int(os.environ.get("WEB_LOGIN_MIB", "256"))
# Whether each upload was complete; None while it is in progress.
UPLOADS = []


class Backends(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            self.respond()
        except ConnectionError:
            pass  # The client has closed the connection.

    def do_PUT(self):
        size, is_whole, number = 0, False, len(UPLOADS)
        UPLOADS.append(None)
        if self.headers.get("Transfer-Encoding") == "chunked":
            while line := self.rfile.readline():
                part = self.rfile.read(int(line, 16))
                size += len(part)
                if not self.rfile.readline():
                    break
                if not part:
                    is_whole = True
                    break
        else:
            length = int(self.headers["Content-Length"])
            while part := self.rfile.read(min(64 * 1024, length - size)):
                size += len(part)
            is_whole = size == length
        UPLOADS[number] = is_whole
        if is_whole:
            self.answer("text/plain", str(size).encode())

    def respond(self):
        if self.path.startswith("/wiki/"):
            if self.path == "/wiki/long-redirect":
                self.send_response(303)
                self.send_header("Location", "https://id.example.com/logout?id_token_hint=" + "a" * 24 * 1024)
                self.send_header("Content-Length", "0")
                return self.end_headers()
            if self.headers.get("Upgrade") == "websocket":
                return self.open_socket()
            if self.headers.get("Upgrade"):
                # An application server that supports HTTP/2 without TLS would accept the upgrade.
                self.protocol_version = "HTTP/1.1"
                self.send_response(101)
                self.send_header("Upgrade", self.headers["Upgrade"])
                self.send_header("Connection", "Upgrade")
                return self.end_headers()
            user = ", ".join(self.headers.get_all("X-User", []) + self.headers.get_all("X_User", []) or ["an unknown user"])
            return self.answer("text/plain", f"The wiki of {user}, with {len(self.headers.get_all('Cookie') or [])} cookies.\n".encode())
        if not self.headers.get("Authorization", "").startswith("Bearer ") or self.headers.get("Cookie"):
            return self.send_error(401)
        if self.path == "/events":
            self.answer("text/event-stream", None)
            for number in range(3):
                self.wfile.write(f"data: {number}\n\n".encode())
                # The browser must receive the events separately, even on a slow machine.
                time.sleep(1)
        elif self.path == "/uploads":
            self.answer("application/json", json.dumps(UPLOADS).encode())
        elif self.path == "/large":
            self.answer("application/octet-stream", None)
            part = bytes(64 * 1024)
            for _ in range(MIB * 1024 * 1024 // len(part)):
                self.wfile.write(part)
        else:
            self.send_error(404)

    def open_socket(self):
        """Opens a WebSocket and sends one message (RFC 6455 sections 4.2.2 and 5.2)."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.protocol_version = "HTTP/1.1"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        message = f"changed by {self.headers.get('X-User')}".encode()
        self.wfile.write(bytes([0x81, len(message)]) + message + bytes([0x88, 0]))
        self.close_connection = True

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
