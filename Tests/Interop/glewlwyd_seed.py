#!/usr/bin/env python3
"""Seeds a fresh Glewlwyd through its admin API: an OIDC plug-in, scopes, a user and a public client.

Usage: glewlwyd_seed.py ORIGIN REDIRECT_URI KEYS_FILE CLIENT_KEYS_FILE DECRYPTION_KEYS_FILE
"""

import http.cookiejar
import json
import sys
import time
import urllib.error
import urllib.request

origin, redirect_uri, keys_file, client_keys_file, decryption_keys_file = sys.argv[1:]
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(origin + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with opener.open(request, timeout=10) as reply:
            return reply.read()
    except urllib.error.HTTPError as error:
        sys.exit(f"glewlwyd_seed: {method} {path} failed with status {error.code}: {error.read().decode()}")


def wait_until_it_answers():
    for _ in range(300):
        try:
            return opener.open(origin + "/config", timeout=5).read()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    sys.exit("glewlwyd_seed: Glewlwyd did not start")


wait_until_it_answers()
call("POST", "/api/auth/", {"username": "admin", "password": "password"})

with open(keys_file) as file:
    # rnbyc writes the public half of each key too.
    keys = json.dumps({"keys": [key for key in json.load(file)["keys"] if "d" in key]})
parameters = {
    "iss": f"{origin}/api/oidc", "jwks-private": keys, "default-kid": "interop-rs256", "jwks-show": True,
    "jwt-type": "rsa", "jwt-key-size": "256",
    "access-token-duration": 3600, "refresh-token-duration": 86400, "code-duration": 60,
    "refresh-token-rolling": True, "allow-non-oidc": False,
    "auth-type-code-enabled": True, "auth-type-refresh-enabled": True, "auth-type-device-enabled": True,
    "oauth-dpop-allowed": True, "oauth-dpop-iat-duration": 60,
    "device-authorization-expiration": 600, "device-authorization-interval": 1,
    "auth-type-client-enabled": False, "auth-type-token-enabled": False, "auth-type-id-token-enabled": False,
    "auth-type-none-enabled": False, "auth-type-password-enabled": False,
    "subject-type": "public", "allowed-scope": ["openid", "profile", "email"],
    "name-claim": "on-demand", "name-claim-scope": ["profile"],
    "email-claim": "on-demand", "email-claim-scope": ["email"], "scope-claim": "no",
    "pkce-allowed": True, "pkce-method-plain-allowed": False, "pkce-required": False,
    "pkce-required-public-client": True, "session-management-allowed": True,
    "introspection-revocation-allowed": True, "introspection-revocation-allow-target-client": True,
    "session-cookie-name": "GLEWLWYD2_OIDC_SID", "session-cookie-expiration": 2419200, "oauth-as-iss-id": True,
    "oauth-fapi-allow-jarm": True,
    "request-parameter-allow": True, "request-maximum-exp": 3600,
    "encrypt-out-token-allow": True, "client-jwks-parameter": "jwks", "client-alg-parameter": "alg",
    "client-enc-parameter": "enc", "client-alg_kid-parameter": "alg_kid",
    "client-encrypt_id_token-parameter": "encrypt_id_token", "client-encrypt_userinfo-parameter": "encrypt_userinfo",
}
call("POST", "/api/mod/plugin/", {
    "module": "oidc", "name": "oidc", "display_name": "oidc", "enabled": True, "parameters": parameters})
# A second issuer, as strict as FAPI 2.0: pushed requests alone, assertions, DPoP with nonces.
call("POST", "/api/mod/plugin/", {
    "module": "oidc", "name": "fapi", "display_name": "fapi", "enabled": True,
    "parameters": dict(parameters, **{
        "iss": f"{origin}/api/fapi", "session-cookie-name": "GLEWLWYD2_FAPI_SID", "allow-non-oidc": True,
        "auth-type-client-enabled": True, "oauth-dpop-nonce-mandatory": True, "oauth-dpop-nonce-counter": 5,
        "oauth-par-allowed": True, "oauth-par-required": True, "oauth-par-duration": 90,
        "oauth-par-request_uri-prefix": "urn:ietf:params:oauth:request_uri:",
        "oauth-fapi-verify-nbf": True,
    }),
})
# The client table keeps only what its format names.
module = next(m for m in json.loads(call("GET", "/api/mod/client/")) if m["name"] == "database")
module["parameters"]["data-format"]["post_logout_redirect_uris"] = {"multiple": True, "read": True, "write": True}
for name in ("alg", "enc", "alg_kid", "encrypt_id_token", "encrypt_userinfo"):
    module["parameters"]["data-format"][name] = {"multiple": False, "read": True, "write": True}
call("PUT", "/api/mod/client/database", module)
call("PUT", "/api/mod/client/database/reset")
for scope in ("profile", "email"):
    call("POST", "/api/scope/", {
        "name": scope, "display_name": scope, "password_required": True, "password_max_age": 0, "scheme": {}})
call("PUT", "/api/scope/openid", {
    "display_name": "openid", "password_required": True, "password_max_age": 0, "scheme": {}})
call("POST", "/api/user/", {
    "username": "alice", "name": "Alice Example", "email": "alice@example.com", "password": "wonderland",
    "enabled": True, "scope": ["openid", "profile", "email"]})
call("POST", "/api/client/", {
    "client_id": "authflow-interop", "name": "AuthFlow interop", "enabled": True, "confidential": False,
    "redirect_uri": [redirect_uri], "post_logout_redirect_uris": [redirect_uri], "authorization_type": ["code", "refresh_token", "device_authorization"],
    "token_endpoint_auth_method": ["none"], "scope": ["openid", "profile", "email"]})
# Only clients that authenticate can revoke tokens.
call("POST", "/api/client/", {
    "client_id": "authflow-interop-confidential", "name": "AuthFlow interop, with a secret", "enabled": True,
    "confidential": True, "client_secret": "interop-secret-of-some-length", "redirect_uri": [redirect_uri],
    "post_logout_redirect_uris": [redirect_uri], "authorization_type": ["code", "refresh_token"],
    "token_endpoint_auth_method": ["client_secret_basic"], "scope": ["openid", "profile", "email"]})
with open(client_keys_file) as file:
    public_keys = [{name: value for name, value in key.items() if name != "d"} for key in json.load(file)["keys"]]
call("POST", "/api/client/", {
    "client_id": "authflow-interop-key", "name": "AuthFlow interop, with a key", "enabled": True, "confidential": True,
    "redirect_uri": [redirect_uri], "authorization_type": ["code", "refresh_token", "client_credentials"],
    "token_endpoint_auth_method": ["private_key_jwt"], "jwks": {"keys": public_keys[:1]},
    "scope": ["openid", "profile", "email"]})
# Clients that ID Tokens and userinfo are encrypted to.
with open(decryption_keys_file) as file:
    public_keys = {key["kid"]: {name: value for name, value in key.items() if name in ("kty", "kid", "n", "e", "crv", "x", "y")}
                   for key in json.load(file)["keys"]}
for kid, key in public_keys.items():
    for alg, enc in {"RSA": [("RSA-OAEP-256", "A256GCM"), ("RSA-OAEP", "A128CBC-HS256")],
                     "EC": [("ECDH-ES", "A128GCM"), ("ECDH-ES+A128KW", "A128CBC-HS256"), ("ECDH-ES+A256KW", "A256GCM")]}[key["kty"]]:
        call("POST", "/api/client/", {
            "client_id": f"authflow-interop-{alg.replace('+', '-')}", "name": f"AuthFlow interop, {alg}", "enabled": True, "confidential": True,
            "client_secret": "interop-secret-of-some-length",
            "redirect_uri": [redirect_uri], "authorization_type": ["code", "refresh_token"],
            "token_endpoint_auth_method": ["client_secret_basic"], "jwks": {"keys": [key]}, "alg": alg, "enc": enc, "alg_kid": kid,
            "encrypt_id_token": "1", "encrypt_userinfo": "1", "scope": ["openid", "profile", "email"]})
