"""Flows with Authlib and requests:

    flows.py callback FOLDER SECONDS   nanoseconds from an authorization request to validated tokens, with an in-memory transport
    flows.py fresh FOLDER SECONDS      nanoseconds to get one fresh token from memory
    flows.py waiters FOLDER            1,000 threads request a token that has expired: requests at the provider, and milliseconds
    flows.py sign-in ISSUER            signs in at the bundled provider through its forms, and prints the subject
"""

import json
import re
import sys
import threading
import time

import requests
from authlib.integrations.requests_client import OAuth2Session
from authlib.jose import JsonWebKey, JsonWebToken

NONCE = "A" * 43


class Provider(requests.adapters.BaseAdapter):
    """Responds in memory, without a network."""

    def __init__(self, id_token, delay=0):
        super().__init__()
        self.body = json.dumps({"access_token": "access", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "refresh",
                                "id_token": id_token}).encode()
        self.requests, self.delay, self.lock = 0, delay, threading.Lock()

    def send(self, request, **options):
        with self.lock:
            self.requests += 1
        if self.delay:
            time.sleep(self.delay)
        response = requests.Response()
        response.status_code, response._content, response.request, response.url = 200, self.body, request, request.url
        response.headers["Content-Type"] = "application/json"
        return response

    def close(self):
        pass


def measure(text, work):
    for _ in range(200):
        work()
    start, count = time.perf_counter_ns(), 0
    while time.perf_counter_ns() - start < float(text) * 1e9:
        for _ in range(50):
            work()
        count += 50
    print((time.perf_counter_ns() - start) / count)


def validated(token, keys, issuer, client, nonce):
    options = {"iss": {"essential": True, "value": issuer}, "aud": {"essential": True, "value": client}}
    claims = JsonWebToken(["RS256", "ES256"]).decode(token, keys, claims_options=options)
    claims.validate()
    assert claims["nonce"] == nonce
    return claims


def sign_in(issuer):
    metadata = requests.get(f"{issuer}/.well-known/openid-configuration", timeout=10).json()
    redirect, nonce = "http://127.0.0.1:8765/callback", "n" * 43
    session = OAuth2Session("authflow-demo", scope="openid profile email", redirect_uri=redirect, code_challenge_method="S256",
                            token_endpoint_auth_method="none")
    verifier = "v" * 43
    address, state = session.create_authorization_url(metadata["authorization_endpoint"], code_verifier=verifier, nonce=nonce,
                                                      state="s" * 43)
    browser = requests.Session()
    page = browser.get(address, allow_redirects=False, timeout=10)
    for _ in range(8):
        location = page.headers.get("Location", "")
        if location.startswith(redirect):
            break
        if location:
            page = browser.get(requests.compat.urljoin(page.url, location), allow_redirects=False, timeout=10)
            continue
        action, inner = re.search(r'(?s)<form method="post" action="([^"]*)">(.*?)</form>', page.text).groups()
        values = {}
        for name, value in re.findall(r'name="([^"]*)"(?: value="([^"]*)")?', inner):
            values.setdefault(name, value)
        if "username" in values:
            values.update(username="alice", password="wonderland")
        page = browser.post(issuer + action, data=values, allow_redirects=False, timeout=10)
    tokens = session.fetch_token(metadata["token_endpoint"], authorization_response=location, code_verifier=verifier, state=state)
    keys = JsonWebKey.import_key_set(requests.get(metadata["jwks_uri"], timeout=10).json())
    print(validated(tokens["id_token"], keys, issuer, "authflow-demo", nonce)["sub"])


def main():
    operation, folder = sys.argv[1], sys.argv[2]
    if operation == "sign-in":
        return sign_in(folder)
    keys = JsonWebKey.import_key_set(json.load(open(f"{folder}/jwks.json")))
    provider = Provider(open(f"{folder}/callback.jwt").read(), 0.02 if operation == "waiters" else 0)

    def session(token=None):
        made = OAuth2Session("client", "secret", scope="openid", redirect_uri="https://app.example.com/callback",
                             code_challenge_method="S256", token=token, token_endpoint="https://id.example.com/token")
        made.mount("https://id.example.com", provider)
        return made

    if operation == "callback":
        def work():
            client = session()
            address, state = client.create_authorization_url("https://id.example.com/authorize", code_verifier="v" * 43, nonce=NONCE)
            tokens = client.fetch_token(authorization_response=f"https://app.example.com/callback?code=code&state={state}",
                                        code_verifier="v" * 43, state=state)
            validated(tokens["id_token"], keys, "https://id.example.com", "client", NONCE)
        measure(sys.argv[3], work)
    elif operation == "fresh":
        client = session({"access_token": "access", "token_type": "Bearer", "refresh_token": "refresh", "expires_at": time.time() + 3600})
        measure(sys.argv[3], lambda: client.ensure_active_token(client.token))
    else:
        client = session({"access_token": "old", "token_type": "Bearer", "refresh_token": "refresh", "expires_at": time.time() - 3600})
        threads = [threading.Thread(target=lambda: client.ensure_active_token(client.token)) for _ in range(1000)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(provider.requests, (time.perf_counter() - start) * 1000)


main()
