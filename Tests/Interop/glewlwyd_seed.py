#!/usr/bin/env python3
"""Seeds a fresh Glewlwyd through its admin API: OIDC plug-ins, scopes, a user and clients.

Usage: glewlwyd_seed.py ORIGIN REDIRECT_URI KEYS_FILE CLIENT_KEYS_FILE DECRYPTION_KEYS_FILE
       glewlwyd_seed.py ORIGIN REDIRECT_URI KEYS_FILE TLS|header CERTIFICATES_FOLDER    for clients with certificates
"""

import base64
import http.cookiejar
import json
import subprocess
import sys
import urllib.error
import urllib.request

origin, redirect_uri, keys_file, client_keys_file, decryption_keys_file = sys.argv[1:]
certificate_source = client_keys_file if client_keys_file in ("TLS", "header") else None
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(origin + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with opener.open(request, timeout=30) as reply:
            return reply.read()
    except urllib.error.HTTPError as error:
        sys.exit(f"glewlwyd_seed: {method} {path} failed with status {error.code}: {error.read().decode()}")


call("POST", "/api/auth/", {"username": "admin", "password": "password"})

with open(keys_file) as file:
    # rnbyc also writes the public half of each key.
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
    "oauth-fapi-allow-jarm": True, "back-channel-logout-allowed": True,
    "request-parameter-allow": True, "request-maximum-exp": 3600,
    "encrypt-out-token-allow": True, "client-jwks-parameter": "jwks", "client-alg-parameter": "alg",
    "client-enc-parameter": "enc", "client-alg_kid-parameter": "alg_kid",
    "client-encrypt_id_token-parameter": "encrypt_id_token", "client-encrypt_userinfo-parameter": "encrypt_userinfo",
}
if certificate_source:
    parameters.update({
        "client-cert-source": certificate_source, "client-cert-header-name": "X-Client-Cert",
        "client-cert-use-endpoint-aliases": True, "client-cert-self-signed-allowed": True,
    })
call("POST", "/api/mod/plugin/", {
    "module": "oidc", "name": "oidc", "display_name": "oidc", "enabled": True, "parameters": parameters})
# A second issuer, which requires pushed requests, and nonces in DPoP proofs.
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
# Glewlwyd stores only the client properties that the module's `data-format` lists.
module = next(m for m in json.loads(call("GET", "/api/mod/client/")) if m["name"] == "database")
module["parameters"]["data-format"]["post_logout_redirect_uris"] = {"multiple": True, "read": True, "write": True}
for name in ("backchannel_logout_uri", "backchannel_logout_session_required", "tls_client_auth_subject_dn", "alg", "enc", "alg_kid", "encrypt_id_token", "encrypt_userinfo"):
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
if certificate_source:
    folder = decryption_keys_file
    with open(f"{folder}/self.pem") as file:
        self_signed = "".join(file.read().split("-----")[2].split())
    public = subprocess.run(
        ["openssl", "x509", "-in", f"{folder}/self.pem", "-noout", "-pubkey"], check=True, capture_output=True, text=True
    ).stdout.split("-----")[2]
    # The P-256 point is at the end of the encoded key.
    point = base64.b64decode("".join(public.split()))[-64:]
    x, y = (base64.urlsafe_b64encode(half).decode().rstrip("=") for half in (point[:32], point[32:]))
    usual = {
        "enabled": True, "confidential": True, "redirect_uri": [redirect_uri],
        "authorization_type": ["code", "refresh_token"], "scope": ["openid", "profile", "email"]}
    call("POST", "/api/client/", dict(
        usual, client_id="authflow-interop-tls", name="with a certificate", token_endpoint_auth_method=["tls_client_auth"],
        tls_client_auth_subject_dn="CN=tls-client,O=AuthFlow"))
    call("POST", "/api/client/", dict(
        usual, client_id="authflow-interop-self-signed", name="with a self-signed certificate",
        token_endpoint_auth_method=["self_signed_tls_client_auth"],
        jwks={"keys": [{"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "self", "x5c": [self_signed]}]}))
    sys.exit()
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
# A web application that is notified when a session ends.
web = redirect_uri.rsplit("/", 1)[0]
call("POST", "/api/client/", {
    "client_id": "authflow-interop-web", "name": "AuthFlow interop, a web application", "enabled": True,
    "confidential": True, "client_secret": "interop-secret-of-some-length", "redirect_uri": [redirect_uri],
    "post_logout_redirect_uris": [f"{web}/"], "authorization_type": ["code", "refresh_token"],
    "backchannel_logout_uri": f"{web}/backchannel-logout", "backchannel_logout_session_required": "1",
    "token_endpoint_auth_method": ["client_secret_basic"], "scope": ["openid", "profile", "email"]})
with open(client_keys_file) as file:
    public_keys = [{name: value for name, value in key.items() if name != "d"} for key in json.load(file)["keys"]]
call("POST", "/api/client/", {
    "client_id": "authflow-interop-key", "name": "AuthFlow interop, with a key", "enabled": True, "confidential": True,
    "redirect_uri": [redirect_uri], "authorization_type": ["code", "refresh_token", "client_credentials"],
    "token_endpoint_auth_method": ["private_key_jwt"], "jwks": {"keys": public_keys[:1]},
    "scope": ["openid", "profile", "email"]})
# Clients for which ID Tokens and userinfo are encrypted.
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
