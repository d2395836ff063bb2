#!/usr/bin/env python3
"""Calls the API with valid and invalid tokens, and checks each response.

    calls.py AUTHFLOW API ISSUER EXPIRED_API EXPIRED_ISSUER

The bundled provider issues the tokens; alice signs in on its usual pages.
"""
import base64, hashlib, importlib.machinery, json, pathlib, re, secrets, subprocess, sys, urllib.error, urllib.parse, urllib.request

REDIRECT = "http://127.0.0.1/callback"
# Completes the bundled provider's pages as alice.
sys.dont_write_bytecode = True
PAGES = pathlib.Path(__file__).resolve().parents[2] / "custom-user-agent" / "sign-in.py"
sign_in = importlib.machinery.SourceFileLoader("sign_in", str(PAGES)).load_module().sign_in


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def tokens(issuer, resource, scope):
    verifier = secrets.token_urlsafe(32)
    query = {"client_id": "authflow-demo", "redirect_uri": REDIRECT, "response_type": "code", "scope": scope, "resource": resource,
             "state": secrets.token_urlsafe(16), "nonce": secrets.token_urlsafe(16), "code_challenge_method": "S256",
             "code_challenge": encoded(hashlib.sha256(verifier.encode()).digest())}
    answer = urllib.parse.parse_qs(urllib.parse.urlsplit(sign_in(f"{issuer}/authorize?{urllib.parse.urlencode(query)}")).query)
    form = {"grant_type": "authorization_code", "code": answer["code"][0], "redirect_uri": REDIRECT, "client_id": "authflow-demo",
            "code_verifier": verifier, "resource": resource}
    with urllib.request.urlopen(f"{issuer}/token", urllib.parse.urlencode(form).encode(), timeout=30) as reply:
        return json.load(reply)


def call(url, authorization=None):
    request = urllib.request.Request(url, headers={"Authorization": authorization} if authorization else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read().decode(), ""
    except urllib.error.HTTPError as reply:
        return reply.code, reply.read().decode(), ", ".join(reply.headers.get_all("WWW-Authenticate") or [])


failed = []


def expect(what, result, status, error=None):
    found = re.search(r'error="([^"]*)"', result[2])
    isRight = result[0] == status and (found[1] if found else None) == error
    print(f"{'ok  ' if isRight else 'FAIL'} {what}: {result[0]}{' ' + found[1] if found else ''}", flush=True)
    if not isRight:
        print("    ", *result, sep="\n     ")
        failed.append(what)


def main():
    authflow, api, issuer, expired_api, expired_issuer = sys.argv[1:]
    orders, payments = f"{api}/api/orders", f"{api}/api/payments"
    good = tokens(issuer, f"{api}/api", "openid orders:read")
    expect("the public route, without a token", call(f"{api}/health"), 200)
    expect("without a token", call(orders), 401)
    expect("with a good token", call(orders, f"Bearer {good['access_token']}"), 200)
    expect("with the ID Token", call(orders, f"Bearer {good['id_token']}"), 401, "invalid_token")
    other = tokens(issuer, f"{api}/other", "openid orders:read")
    expect("with a token for another API", call(orders, f"Bearer {other['access_token']}"), 401, "invalid_token")
    few = tokens(issuer, f"{api}/api", "openid")
    expect("with too few scopes", call(orders, f"Bearer {few['access_token']}"), 403, "insufficient_scope")
    expect("with a weak sign-in", call(payments, f"Bearer {good['access_token']}"), 401, "insufficient_user_authentication")
    head, claims, signature = good["access_token"].split(".")
    text = json.loads(base64.urlsafe_b64decode(claims + "=="))
    text["scope"] = "orders:read orders:admin"
    forged = f"{head}.{encoded(json.dumps(text).encode())}.{signature}"
    expect("with a tampered token", call(orders, f"Bearer {forged}"), 401, "invalid_token")
    unsigned = f"{encoded(json.dumps({'alg': 'none', 'typ': 'at+jwt'}).encode())}.{claims}."
    expect("with a token without a signature", call(orders, f"Bearer {unsigned}"), 401, "invalid_token")
    expect("with the token in the query", call(f"{orders}?access_token={good['access_token']}"), 401)
    expect("with two tokens", call(f"{orders}?access_token=a", f"Bearer {good['access_token']}"), 400, "invalid_request")
    expired = tokens(expired_issuer, f"{expired_api}/api", "openid orders:read")
    expect("with an expired token", call(f"{expired_api}/api/orders", f"Bearer {expired['access_token']}"), 401, "invalid_token")
    expect("with a token from another issuer", call(orders, f"Bearer {expired['access_token']}"), 401, "invalid_token")

    # An attacker has stolen a token that is bound to a key, but does not have the key. demo.sh has already signed in.
    def run(*arguments):
        return subprocess.run([authflow, *arguments, "--quiet"], capture_output=True, text=True, timeout=60)
    result = run("curl", "--at", f"{api}/api", orders)
    expect("with a bound token and its proof, by authflow curl", (200 if result.returncode == 0 else 0, result.stderr, ""), 200)
    stolen = run("token", f"{api}/api").stdout.strip()
    expect("with a stolen bound token", call(orders, f"Bearer {stolen}"), 401, "invalid_token")
    expect("with a stolen bound token, and no proof", call(orders, f"DPoP {stolen}"), 401, "invalid_dpop_proof")
    sys.exit(f"{len(failed)} failed" if failed else 0)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        # Acts as a browser: signs in, and follows the redirect to the waiting program.
        urllib.request.urlopen(sign_in(sys.argv[1]), timeout=30).read()
    else:
        main()
