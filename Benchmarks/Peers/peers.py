#!/usr/bin/env python3
"""Measures AuthFlow and its peers in one run, each through its public API, and prints a table; --write updates docs/performance.md and peers.svg.

    peers.py SWIFT-PEER AUTHFLOW PYTHON-WITH-PEERS [--write]

SWIFT-PEER is built from Benchmarks/Peers/Swift, AUTHFLOW is the tool. The programs run in alternating rounds, so that other load on the
machine affects all of them equally. Medians are printed.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent
swift, tool, python = sys.argv[1:4]
ROUNDS, SECONDS = 5, 0.7
work = pathlib.Path(tempfile.mkdtemp())

MAKE = """
import json, sys, time
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
folder = sys.argv[1]
keys = {"RS256": RSAKey.generate_key(2048, {"kid": "rs", "use": "sig", "alg": "RS256"}),
        "ES256": ECKey.generate_key("P-256", {"kid": "es", "use": "sig", "alg": "ES256"})}
json.dump({"keys": [key.as_dict(private=False) for key in keys.values()]}, open(f"{folder}/jwks.json", "w"))
now = int(time.time())
claims = {"iss": "https://id.example.com", "sub": "248289761001", "aud": "client", "exp": now + 36000, "iat": now, "auth_time": now,
          "nonce": "nonce", "name": "Alice Example", "email": "alice@example.com", "email_verified": True}
for algorithm, key in keys.items():
    open(f"{folder}/{algorithm}.jwt", "w").write(jwt.encode({"alg": algorithm, "kid": key.kid, "typ": "JWT"}, claims, key))
# Access tokens for an API (RFC 9068). The checks that all libraries perform: signature, issuer, audience and times.
access = {"iss": "https://id.example.com", "sub": "248289761001", "aud": "https://api.example.com", "exp": now + 36000, "iat": now,
          "client_id": "app", "jti": "1", "scope": "orders:read orders:write"}
for algorithm, key in keys.items():
    open(f"{folder}/api-{algorithm}.jwt", "w").write(jwt.encode({"alg": algorithm, "kid": key.kid, "typ": "at+jwt"}, access, key))
claims["nonce"] = "A" * 43
open(f"{folder}/callback.jwt", "w").write(jwt.encode({"alg": "RS256", "kid": "rs", "typ": "JWT"}, claims, keys["RS256"]))
"""


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout.strip()


def version(*command):
    try:
        return output(*command).splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "?"


def of_python(name):
    return version(python, "-c", f"import importlib.metadata as m; print(m.version({name!r}))")


def of_debian(name):
    return version("dpkg-query", "-W", "-f=${Version}", name).split("+")[0]


output(python, "-c", MAKE, str(work))
go, flows = work / "peer", work / "flows"
for program, source in ((go, "peer.go"), (flows, "flows.go")):
    subprocess.run(["go", "build", "-o", str(program), str(here / source)], check=True,
                   env={**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(work / "go"), "GOFLAGS": ""})
resolved = (here / "Swift/Package.resolved").read_text() if (here / "Swift/Package.resolved").exists() else ""
jwt_kit = "5.7.1" if '"5.7.1"' in resolved else "5"

VALIDATORS = [
    ("AuthFlow", "this repository", [swift, "authflow"]),
    ("jwt-kit", f"{jwt_kit}, Swift", [swift, "jwt-kit"]),
    ("go-oidc", f"{of_debian('golang-github-coreos-go-oidc-dev')}, {version('go', 'version').split()[2]}", [str(go)]),
    ("jose", f"{of_debian('node-jose')}, node {version('node', '--version')}", ["node", str(here / "peer.cjs")]),
    ("PyJWT", f"{of_python('pyjwt')}, Python", [python, str(here / "peer.py"), "pyjwt"]),
    ("joserfc", f"{of_python('joserfc')}, Python", [python, str(here / "peer.py"), "joserfc"]),
    ("Authlib", f"{of_python('authlib')}, Python", [python, str(here / "peer.py"), "authlib"]),
]
times = {}
for _ in range(ROUNDS):
    for name, _, command in VALIDATORS:
        for algorithm in ("RS256", "ES256"):
            times.setdefault((name, algorithm), []).append(float(output(*command, str(work), algorithm, str(SECONDS))))
# The same libraries at an API: a request with an access token. jose and joserfc are omitted, because their results would be the same as above.
APIS = [(name, text, command) for name, text, command in VALIDATORS if name not in ("jose", "joserfc")]
for _ in range(ROUNDS):
    for name, _, command in APIS:
        for algorithm in ("api-RS256", "api-ES256"):
            times.setdefault((name, algorithm), []).append(float(output(*command, str(work), algorithm, str(SECONDS))))
medians = {key: statistics.median(values) / 1000 for key, values in times.items()}

# Flows: from an authorization request to validated tokens, and fresh tokens.
GO_FLOWS = f"x/oauth2 {of_debian('golang-golang-x-oauth2-dev')}, go-oidc"
FLOWS = [
    ("AuthFlow", "this repository", lambda operation: [swift, operation, str(work), "callback"]),
    ("x/oauth2 with go-oidc", GO_FLOWS, lambda operation: [str(flows), operation, str(work)]),
    ("Authlib with requests", f"{of_python('authlib')}, Python", lambda operation: [python, str(here / "flows.py"), operation, str(work)]),
]
flow_times, waits = {}, {}
for _ in range(ROUNDS):
    for name, _, command in FLOWS:
        for operation in ("callback", "fresh"):
            flow_times.setdefault((name, operation), []).append(float(output(*command(operation), str(SECONDS))))
        count, milliseconds = output(*command("waiters"), "0").split()
        waits.setdefault(name, []).append((int(count), float(milliseconds)))


def used(command, **options):
    """Runs a program. Returns its elapsed time and CPU time, in milliseconds, and its peak memory, in MB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command} failed with status {process.returncode}")
    return (time.perf_counter() - start) * 1000, (usage.ru_utime + usage.ru_stime) * 1000, usage.ru_maxrss / 1024


# The time that a script waits for the token of a stored sign-in.
home = work / "home"
home.mkdir()
environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PASSWORD": "wonderland", "GH_TOKEN": "gho_x", "LANG": "C.UTF-8"}
provider = subprocess.Popen([tool, "dev-idp"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
try:
    issuer = provider.stdout.readline().strip()
    configuration = home / ".config/authflow/config.json"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(f"""{{"profiles": {{"p": {{"provider": "oidc", "issuer": "{issuer}", "client_id": "authflow-demo",
      "user_agent": {{"name": "headless", "username": "alice", "password": {{"env": "PASSWORD"}}, "origins": ["{issuer}"]}}}}}}}}""")
    output(tool, "login", env=environment)
    STARTS = [
        ("authflow token", "release build", [tool, "token"]),
        ("gh auth token", version("gh", "--version").split()[2], ["gh", "auth", "token"]),
        ("python3 -c 'import authlib.jose, urllib.request'", of_python("authlib"),
         [python, "-c", "import authlib.jose, urllib.request"]),
        ("true", "a program that does nothing", ["/bin/true"]),
    ]
    starts = {}
    for _ in range(40):
        for name, _, command in STARTS:
            start = time.perf_counter()
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            starts.setdefault(name, []).append((time.perf_counter() - start) * 1000)
    SIGN_INS = [
        ("authflow login", [tool, "login"]),
        ("x/oauth2 with go-oidc", [str(flows), "sign-in", issuer]),
        ("Authlib with requests", [python, str(here / "flows.py"), "sign-in", issuer]),
    ]
    sign_ins = {}
    for _ in range(20):
        for name, command in SIGN_INS:
            sign_ins.setdefault(name, []).append(used(command, env=environment))
finally:
    provider.terminate()
    provider.wait(10)

lines = ["| library | version | RS256 | ES256 | RS256, relative to AuthFlow | ES256 |", "|---|---|---|---|---|---|"]
for name, text, _ in VALIDATORS:
    ratios = [medians[name, algorithm] / medians["AuthFlow", algorithm] for algorithm in ("RS256", "ES256")]
    lines.append(f"| {name} | {text} | {medians[name, 'RS256']:.1f} us | {medians[name, 'ES256']:.1f} us | {ratios[0]:.2f} | {ratios[1]:.2f} |")
lines += ["", "| access token at an API, not cached | RS256 | ES256 | RS256, relative to AuthFlow | ES256 |", "|---|---|---|---|---|"]
for name, _, _ in APIS:
    rs, es = (medians[name, f"api-{algorithm}"] for algorithm in ("RS256", "ES256"))
    ratios = [medians[name, f"api-{algorithm}"] / medians["AuthFlow", f"api-{algorithm}"] for algorithm in ("RS256", "ES256")]
    lines.append(f"| {name} | {rs:.1f} us | {es:.1f} us | {ratios[0]:.2f} | {ratios[1]:.2f} |")
lines += ["", "| start to token | version | median |", "|---|---|---|"]
for name, text, _ in STARTS:
    lines.append(f"| `{name}` | {text} | {statistics.median(starts[name]):.1f} ms |")
lines += ["", "| library | version | request to validated tokens | fresh token from memory | 1,000 callers: refresh requests | time until all have the token |",
          "|---|---|---|---|---|---|"]
for name, text, _ in FLOWS:
    callback, fresh = (statistics.median(flow_times[name, operation]) for operation in ("callback", "fresh"))
    count, wait = (statistics.median(values) for values in zip(*waits[name]))
    lines.append(f"| {name} | {text} | {callback / 1000:.0f} us | {fresh / 1000:.2f} us | {count:.0f} | {wait:.0f} ms |")
lines += ["", "| headless sign-in, in a new process | time | CPU time | peak memory |", "|---|---|---|---|"]
for name, _ in SIGN_INS:
    whole, processor, memory = (statistics.median(values) for values in zip(*sign_ins[name]))
    lines.append(f"| {name} | {whole:.0f} ms | {processor:.0f} ms | {memory:.0f} MB |")
table = "\n".join(lines)
print(table)


def plot():
    """A bar chart of the libraries; shorter is better."""
    width, bar, top = 760, 18, 40
    longest = max(value for (_, algorithm), value in medians.items() if not algorithm.startswith("api-"))
    rows, y = [], top
    for name, text, _ in VALIDATORS:
        rows.append(f'<text x="8" y="{y + 23}" class="n">{name}</text>')
        for offset, algorithm in ((0, "RS256"), (bar + 2, "ES256")):
            value = medians[name, algorithm]
            length = max(2, value / longest * (width - 230))
            color = {"RS256": "#2f6fde", "ES256": "#e0882f"}[algorithm] if name == "AuthFlow" else {"RS256": "#9db8e8", "ES256": "#ecc79b"}[algorithm]
            rows.append(f'<rect x="90" y="{y + offset}" width="{length:.0f}" height="{bar}" fill="{color}"/>'
                        f'<text x="{96 + length:.0f}" y="{y + offset + 13}">{algorithm} {value:.1f} us</text>')
        y += 2 * bar + 14
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" viewBox="0 0 {width} {y}">'
            "<style>text{font:12px system-ui,sans-serif;fill:#444}.n{font-weight:600;fill:#111}.t{font-size:14px;fill:#111}</style>"
            f'<rect width="{width}" height="{y}" fill="#fff"/><text x="8" y="22" class="t">Validating an ID Token: microseconds per validation; shorter is better</text>'
            + "".join(rows) + "</svg>\n")


if "--write" in sys.argv:
    (root / "docs/peers.svg").write_text(plot())
    page = root / "docs/performance.md"
    before, _, rest = page.read_text().partition("<!-- peers -->")
    _, _, after = rest.partition("<!-- end -->")
    page.write_text(f"{before}<!-- peers -->\n{table}\n<!-- end -->{after}")
