#!/usr/bin/env python3
"""Decrypts authorization requests with joserfc (PyPI), with the encryption algorithms and curves that AuthFlow supports.

    encrypted_requests.py AUTHFLOW

A provider on loopback publishes its keys; `authflow login --no-browser` prints the URL of the request, which is not opened in a browser.
"""

import http.server
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from joserfc import jwe, jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

tool = os.path.abspath(sys.argv[1])
folder = tempfile.TemporaryDirectory()
keys = {"RSA": RSAKey.generate_key(2048, {"kid": "rsa", "use": "enc"}),
        "P-256": ECKey.generate_key("P-256", {"kid": "p256", "use": "enc"}),
        "P-384": ECKey.generate_key("P-384", {"kid": "p384", "use": "enc"}),
        "P-521": ECKey.generate_key("P-521", {"kid": "p521", "use": "enc"}),
        "X25519": OKPKey.generate_key("X25519", {"kid": "x25519", "use": "enc"})}
own = ECKey.generate_key("P-256", {"kid": "own", "alg": "ES256"})
client_key = os.path.join(folder.name, "client.json")
with open(os.open(client_key, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
    json.dump(own.as_dict(private=True), file)
published = []


class Provider(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        metadata = {"issuer": issuer, "authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token",
                    "jwks_uri": f"{issuer}/jwks"}
        body = json.dumps(metadata if "well-known" in self.path else {"keys": [key.as_dict(private=False) for key in published]})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
issuer = f"http://127.0.0.1:{server.server_port}"
threading.Thread(target=server.serve_forever, daemon=True).start()


def request(algorithm, content):
    """Returns the request object that the tool creates."""
    path = os.path.join(folder.name, "authflow.json")
    profile = {"provider": "oidc", "issuer": issuer, "client_id": "interop", "client_key": client_key, "par": "never",
               "signed_requests": True, "encrypted_requests": {"algorithm": algorithm, "content": content}, "store": "memory"}
    with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        json.dump({"profiles": {"p": profile}}, file)
    process = subprocess.Popen([tool, "login", "--no-browser", "--config", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env={**os.environ, "HOME": folder.name})
    try:
        shown = []
        for line in process.stdout:
            shown.append(line)
            if address := re.search(r"http://\S+/authorize\S+", line):
                return urllib.parse.parse_qs(urllib.parse.urlsplit(address[0]).query)["request"][0]
        sys.exit("".join(shown))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()


contents = ["A128CBC-HS256", "A192CBC-HS384", "A256CBC-HS512", "A128GCM", "A192GCM", "A256GCM"]
agreements = ["ECDH-ES", "ECDH-ES+A128KW", "ECDH-ES+A192KW", "ECDH-ES+A256KW"]
trials = [("RSA", algorithm, content) for algorithm in ("RSA-OAEP", "RSA-OAEP-256") for content in contents]
trials += [("P-256", algorithm, content) for algorithm in agreements for content in contents]
trials += [(curve, algorithm, "A256GCM") for curve in ("P-384", "P-521", "X25519") for algorithm in agreements]
registry = jwe.JWERegistry(algorithms=["RSA-OAEP", "RSA-OAEP-256", *agreements, *contents])
for name, algorithm, content in trials:
    published[:] = [keys[name]]
    encrypted = jwe.decrypt_compact(request(algorithm, content), keys[name], registry=registry)
    assert encrypted.headers()["alg"] == algorithm and encrypted.headers()["enc"] == content
    claims = jwt.decode(encrypted.plaintext.decode(), own, algorithms=["ES256"]).claims
    assert claims["iss"] == "interop" and claims["aud"] == issuer and claims["code_challenge_method"] == "S256"
print(f"encrypted requests: joserfc decrypted the requests for {len(trials)} combinations of algorithms and keys")
