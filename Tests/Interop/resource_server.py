#!/usr/bin/env python3
"""Calls the API of Samples/servers/orders-api with access tokens (RFC 9068) and DPoP proofs (RFC 9449) created with joserfc (PyPI), with tokens from
Authlib's authorization server, proofs from requests_oauth2client, and certificate-bound tokens (RFC 8705) through nginx.

    resource_server.py ORDERS_API

A provider on loopback publishes its keys. Every algorithm is accepted, and every manipulated token is rejected.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings

import requests
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from requests_oauth2client import DPoPKey, DPoPToken

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from ports import free_port, wait_until_open

warnings.simplefilter("ignore")
everything = list(JWSRegistry.algorithms)
keys = {"RS256": RSAKey.generate_key(2048, {"kid": "rsa"}), "ES256": ECKey.generate_key("P-256", {"kid": "p256"}),
        "ES384": ECKey.generate_key("P-384", {"kid": "p384"}), "ES512": ECKey.generate_key("P-521", {"kid": "p521"}),
        "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "ed25519"})}
for name in ("RS384", "RS512", "PS256", "PS384", "PS512"):
    keys[name] = keys["RS256"]
published = {key.kid: key for key in keys.values()}


class Provider(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        metadata = {"issuer": issuer, "authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token",
                    "jwks_uri": f"{issuer}/jwks", "response_types_supported": ["code"]}
        document = metadata if "well-known" in self.path else {"keys": [key.as_dict(private=False) for key in published.values()]}
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
issuer = f"http://127.0.0.1:{server.server_port}"
threading.Thread(target=server.serve_forever, daemon=True).start()
port = free_port()
api = f"http://127.0.0.1:{port}/api"
orders = f"{api}/orders"
folder = tempfile.TemporaryDirectory()
settings = os.path.join(folder.name, "api.json")
with open(settings, "w") as file:
    # Only nginx may set the field. The calls that bypass nginx do not set it.
    json.dump({"resource_server": {"resource": api, "issuers": [issuer],
                                   "certificate_field": {"name": "X-Client-Certificate", "encoding": "escaped-pem"}}}, file)
sample = subprocess.Popen([os.path.abspath(sys.argv[1]), settings, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(algorithm="ES256", key=None, header=None, **claims):
    now = int(time.time())
    usual = {"iss": issuer, "aud": api, "sub": "alice", "client_id": "app", "jti": secrets.token_hex(8), "iat": now, "exp": now + 300,
             "scope": "orders:read"}
    key = key or keys[algorithm]
    head = {"alg": algorithm, "typ": "at+jwt", "kid": key.kid, **(header or {})}
    return jwt.encode({k: v for k, v in head.items() if v is not None},
                      {k: v for k, v in {**usual, **claims}.items() if v is not None}, key, algorithms=everything)


class Caller:
    """The client and the user, with the methods that Authlib's authorization server calls."""

    def get_client_id(self):
        return "app"

    def get_user_id(self):
        return "alice"

    def get_allowed_scope(self, scope):
        return scope


class AuthlibServer(JWTBearerTokenGenerator):
    """The part of Authlib's authorization server that issues access tokens."""

    def __init__(self, binding=None):
        super().__init__(issuer, alg="RS256")
        self.binding = binding

    def get_jwks(self):
        return {"keys": [keys["RS256"].as_dict(private=True)]}

    def get_audiences(self, client, user, scope):
        return api

    def get_extra_claims(self, client, grant_type, user, scope):
        return {"cnf": {"jkt": self.binding}} if self.binding else {}

    def token(self, scope="orders:read"):
        return self(grant_type="authorization_code", client=Caller(), user=Caller(), scope=scope)["access_token"]


def proof(key, access_token, algorithm="ES256", header=None, **claims):
    hashed = encoded(hashlib.sha256(access_token.encode()).digest())
    head = {"typ": "dpop+jwt", "alg": algorithm, "jwk": key.as_dict(private=False), **(header or {})}
    usual = {"jti": secrets.token_hex(8), "htm": "GET", "htu": orders, "iat": int(time.time()), "ath": hashed}
    return jwt.encode(head, {**usual, **claims}, key, algorithms=everything)


def call(authorization, dpop=None):
    request = urllib.request.Request(orders, headers={"Authorization": authorization, **({"DPoP": dpop} if dpop else {})})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, None
    except urllib.error.HTTPError as reply:
        found = re.search(r'error="([^"]*)"', ", ".join(reply.headers.get_all("WWW-Authenticate") or []))
        return reply.code, found and found[1]


def certificate(name):
    """A self-signed certificate: its file, its key's file, and its thumbprint (RFC 8705 section 3.1)."""
    files = [os.path.join(folder.name, f"{name}.{kind}") for kind in ("pem", "key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
                    f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]],
                   check=True, capture_output=True)
    der = ssl.PEM_cert_to_DER_cert(open(files[0]).read())
    return *files, encoded(hashlib.sha256(der).digest())


def nginx():
    """nginx in front of the API: it requests a certificate, and forwards the certificate that the client presented."""
    file, key, _ = certificate("server")
    front = free_port()
    path = os.path.join(folder.name, "nginx.conf")
    paths = "".join(f"{kind}_temp_path {folder.name}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(path, "w") as config:
        config.write(f"""daemon off; pid {folder.name}/nginx.pid; error_log stderr; worker_processes 1;
events {{}}
http {{ access_log off; {paths}
  server {{
    listen 127.0.0.1:{front} ssl; ssl_certificate {file}; ssl_certificate_key {key}; ssl_verify_client optional_no_ca;
    location / {{ proxy_pass http://127.0.0.1:{port}; proxy_set_header X-Client-Certificate $ssl_client_escaped_cert; }}
  }}
}}""")
    process = subprocess.Popen(["nginx", "-c", path, "-p", folder.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process, front, file


def through(front, authority, access_token, client=None, fields=None):
    context = ssl.create_default_context(cafile=authority)
    if client:
        context.load_cert_chain(*client[:2])
    headers = {"Authorization": f"Bearer {access_token}", **(fields or {})}
    request = urllib.request.Request(f"https://127.0.0.1:{front}/api/orders", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as reply:
            return reply.status, None
    except urllib.error.HTTPError as reply:
        found = re.search(r'error="([^"]*)"', ", ".join(reply.headers.get_all("WWW-Authenticate") or []))
        return reply.code, found and found[1]


failed = []


def expect(what, result, wanted):
    if result != wanted:
        failed.append(f"{what}: {result}, not {wanted}")


proxy = None
ok, invalid, bad_proof = (200, None), (401, "invalid_token"), (401, "invalid_dpop_proof")
try:
    wait_until_open(port, sample)
    for algorithm in keys:
        expect(f"a token signed with {algorithm}", call(f"Bearer {token(algorithm)}"), ok)
    expect("several audiences", call(f"Bearer {token(aud=[api, 'https://other.example.com'])}"), ok)
    expect("a type with application/", call(f"Bearer {token(header={'typ': 'application/at+jwt'})}"), ok)
    expect("no kid", call(f"Bearer {token(header={'kid': None})}"), ok)
    attacker = ECKey.generate_key("P-256", {"kid": "p256"})
    head, claims, signature = token().split(".")
    # joserfc does not sign with a public key as the secret.
    confused = f"{encoded(json.dumps({'alg': 'HS256', 'typ': 'at+jwt', 'kid': 'rsa'}).encode())}.{claims}"
    confused += "." + encoded(hmac.digest(keys["RS256"].as_pem(private=False), confused.encode(), "sha256"))
    for what, bad in {
        "a different key": token(key=attacker), "the public key as a secret": confused,
        "the type of an ID Token": token(header={"typ": "JWT"}), "no type": token(header={"typ": None}),
        "another audience": token(aud="https://other.example.com"), "a longer audience": token(aud=api + "/orders"),
        "no audience": token(aud=None), "another issuer": token(iss="https://other.example.com"),
        "expired": token(exp=int(time.time()) - 120), "no expiry": token(exp=None), "not valid yet": token(nbf=int(time.time()) + 300),
        "no subject": token(sub=None), "no client": token(client_id=None), "no jti": token(jti=None),
        "no signature": f"{head}.{claims}.", "another token's signature": f"{head}.{claims}.{token().split('.')[2]}",
        "a short signature": f"{head}.{claims}.{signature[:-4]}", "an embedded key": token(key=attacker, header={
            "jwk": attacker.as_dict(private=False)}),
    }.items():
        expect(what, call(f"Bearer {bad}"), invalid)
    expect("too few scopes", call(f"Bearer {token(scope='orders')}"), (403, "insufficient_scope"))

    for algorithm, key in {"ES256": ECKey.generate_key("P-256"), "ES384": ECKey.generate_key("P-384"),
                           "RS256": RSAKey.generate_key(2048), "PS256": RSAKey.generate_key(2048),
                           "EdDSA": OKPKey.generate_key("Ed25519")}.items():
        bound = token(cnf={"jkt": key.thumbprint()})
        good = proof(key, bound, algorithm)
        expect(f"a proof signed with {algorithm}", call(f"DPoP {bound}", good), ok)
        expect(f"a repeated proof signed with {algorithm}", call(f"DPoP {bound}", good), bad_proof)
        expect("as a bearer token", call(f"Bearer {bound}", proof(key, bound, algorithm)), invalid)
        expect("without a proof", call(f"DPoP {bound}"), bad_proof)
        for what, bad in {
            "another method": proof(key, bound, algorithm, htm="POST"), "another URL": proof(key, bound, algorithm, htu=api),
            "another token": proof(key, token(), algorithm), "an old proof": proof(key, bound, algorithm, iat=int(time.time()) - 200),
            "a different key": proof(attacker, bound), "a private key": proof(key, bound, algorithm, header={"jwk": key.as_dict(private=True)}),
            "another type": proof(key, bound, algorithm, header={"typ": "JWT"}),
        }.items():
            expect(f"a proof signed with {algorithm}: {what}", call(f"DPoP {bound}", bad), bad_proof)

    theirs = AuthlibServer().token()
    expect("an Authlib token", call(f"Bearer {theirs}"), ok)
    expect("a modified Authlib token", call(f"Bearer {theirs[:-8]}AAAAAAAA"), invalid)
    expect("an Authlib token with too few scopes", call(f"Bearer {AuthlibServer().token('orders')}"), (403, "insufficient_scope"))
    for algorithm in ("ES256", "RS256", "PS256", "EdDSA"):
        key, thief = DPoPKey.generate(algorithm), DPoPKey.generate(algorithm)
        bound = AuthlibServer(key.private_key.thumbprint()).token()
        for what, used, wanted in (("its own", key, 200), ("its own", key, 200), ("another", thief, 401)):
            response = requests.get(orders, auth=DPoPToken(bound, _dpop_key=used), timeout=30)
            expect(f"requests_oauth2client with {algorithm} and {what} key", response.status_code, wanted)

    proxy, front, authority = nginx()
    wait_until_open(front, proxy)
    own, other = certificate("client"), certificate("thief")
    bound = token(cnf={"x5t#S256": own[2]})
    expect("a certificate-bound token through nginx", through(front, authority, bound, own), ok)
    expect("with another certificate", through(front, authority, bound, other), invalid)
    expect("without a certificate", through(front, authority, bound), invalid)
    stolen = {"X-Client-Certificate": urllib.parse.quote(open(own[0]).read())}
    expect("with the certificate in a header sent by the client", through(front, authority, bound, other, stolen), invalid)
    expect("with only the header", through(front, authority, bound, None, stolen), invalid)
    expect("a bearer token through nginx", through(front, authority, token(), own), ok)
finally:
    if proxy:
        proxy.terminate()
        proxy.wait()
    sample.terminate()
    sample.wait()
print("\n".join(failed) or "resource_server.py: tokens with 10 algorithms and proofs with 5 from joserfc, Authlib tokens with requests_oauth2client proofs, and certificates through nginx were accepted; every manipulated form was rejected")
sys.exit(1 if failed else 0)
