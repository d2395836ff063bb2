#!/usr/bin/env python3
"""An idpyoidc (PyPI) OpenID provider on loopback, which accepts pushed requests and private_key_jwt.

Usage: idpyoidc_provider.py PORT REDIRECT_URI CLIENT_KEYS_FILE FOLDER

It signs in "diana" without a prompt, because only the back channel is tested.
"""

import json
import os
import sys

from flask import Flask, Response, redirect, request
from idpyoidc.server import Server
from idpyoidc.server.configure import OPConfiguration

port, redirect_uri, client_keys_file, folder = sys.argv[1:]
issuer = f"http://127.0.0.1:{port}"
key_definitions = [
    {"type": "RSA", "use": ["sig"]},
    {"type": "EC", "crv": "P-256", "use": ["sig"]},
    {"type": "RSA", "use": ["enc"]},
]
methods = ["private_key_jwt"]
os.chdir(folder)
configuration = {
    "issuer": issuer,
    "httpc_params": {"verify": False},
    "keys": {"uri_path": "jwks.json", "key_defs": key_definitions},
    "preference": {"subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256", "RS256"]},
    "token_handler_args": {
        "jwks_def": {
            "private_path": f"{folder}/token_jwks.json",
            "read_only": False,
            "key_defs": [{"type": "oct", "bytes": 24, "use": ["enc"], "kid": name} for name in ("code", "refresh")],
        },
        "code": {"lifetime": 600},
        "token": {"class": "idpyoidc.server.token.jwt_token.JWTToken", "kwargs": {"lifetime": 3600}},
        "refresh": {"class": "idpyoidc.server.token.jwt_token.JWTToken", "kwargs": {"lifetime": 86400}},
        "id_token": {"class": "idpyoidc.server.token.id_token.IDToken", "kwargs": {}},
    },
    "endpoint": {
        "provider_config": {
            "path": ".well-known/openid-configuration",
            "class": "idpyoidc.server.oidc.provider_config.ProviderConfiguration",
            "kwargs": {"client_authn_method": None},
        },
        "authorization": {
            "path": "authorization",
            "class": "idpyoidc.server.oidc.authorization.Authorization",
            "kwargs": {"client_authn_method": None, "response_types_supported": ["code"], "response_modes_supported": ["query"]},
        },
        "pushed_authorization": {
            "path": "par",
            "class": "idpyoidc.server.oauth2.pushed_authorization.PushedAuthorization",
            "kwargs": {"client_authn_method": methods, "ttl": 60},
        },
        "token": {"path": "token", "class": "idpyoidc.server.oidc.token.Token", "kwargs": {"client_authn_method": methods}},
        "userinfo": {
            "path": "userinfo",
            "class": "idpyoidc.server.oidc.userinfo.UserInfo",
            "kwargs": {"client_authn_method": ["bearer_header"]},
        },
    },
    "userinfo": {
        "class": "idpyoidc.server.user_info.UserInfo",
        "kwargs": {"db": {"diana": {"name": "Diana Krall", "email": "diana@example.com"}}},
    },
    "authentication": {
        "anonymous": {
            "acr": "http://www.swamid.se/policy/assurance/al1",
            "class": "idpyoidc.server.user_authn.user.NoAuthn",
            "kwargs": {"user": "diana"},
        }
    },
    "template_dir": folder,
    "session_params": {"encrypter": {"kwargs": {"keys": {"key_defs": [
        {"type": "OCT", "use": ["enc"], "kid": "password"}, {"type": "OCT", "use": ["enc"], "kid": "salt"}]}, "iterations": 1}}},
}
server = Server(OPConfiguration(configuration, base_path=folder), cwd=folder)
with open(client_keys_file) as file:
    keys = {"keys": [{k: v for k, v in key.items() if k != "d"} for key in json.load(file)["keys"]][:1]}
server.context.cdb["authflow"] = {
    "client_id": "authflow", "redirect_uris": [(redirect_uri, {})], "response_types_supported": ["code"],
    "token_endpoint_auth_method": "private_key_jwt", "allowed_scopes": ["openid", "profile", "email", "offline_access"],
    "scope": ["openid", "profile", "email", "offline_access"], "jwks": keys,
    "id_token_signed_response_alg": "ES256",
}
server.keyjar.import_jwks(keys, "authflow")
application = Flask(__name__)


def serve(name):
    endpoint = server.get_endpoint(name)
    information = {
        "headers": {key.lower(): value for key, value in request.headers.items()},
        "method": request.method, "url": request.url, "cookies": [],
    }
    arguments = request.args.to_dict() if request.method == "GET" else request.get_data(as_text=True)
    try:
        parsed = endpoint.parse_request(arguments, http_info=information)
        if "error" in parsed:
            return Response(parsed.to_json(), status=400, content_type="application/json")
        result = parsed if "error" in parsed else endpoint.process_request(parsed, http_info=information)
        if "http_response" in result:
            return Response(json.dumps(result["http_response"]), status=201, content_type="application/json")
        if "redirect_location" in result:
            return redirect(result["redirect_location"])
        answer = endpoint.do_response(request=parsed, **result)
    except Exception as error:  # noqa: BLE001: the library rejects requests by raising exceptions of many types.
        text = json.dumps({"error": "invalid_client", "error_description": str(error)})
        return Response(text, status=401, content_type="application/json")
    placement = answer.get("response_placement") or endpoint.response_placement
    if placement == "url":
        return redirect(answer["response"])
    body = answer["response"]
    return Response(body, status=400 if '"error"' in body else 200, headers=[h for h in answer.get("http_headers", [])])


@application.get("/.well-known/openid-configuration")
def metadata():
    return serve("provider_config")


@application.get("/jwks.json")
def jwks():
    return Response(server.keyjar.export_jwks_as_json(), content_type="application/json")


@application.get("/authorization")
def authorization():
    return serve("authorization")


@application.post("/par")
def par():
    return serve("pushed_authorization")


@application.post("/token")
def token():
    return serve("token")


@application.get("/userinfo")
def userinfo():
    return serve("userinfo")


application.run("127.0.0.1", int(port), threaded=False)
