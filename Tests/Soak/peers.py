#!/usr/bin/env python3
"""The same load on two web applications that store rotating refresh tokens in Redis: ours, and Apache with mod_auth_openidc.

    peers.py SESSION_SOAK WEB_LOGIN [--sessions N] [--parallel P] [--rounds R]

Tests/Databases/databases.sh starts Redis for our application; the other application uses a separate Redis server on a port. Each
application runs in two processes. N users sign in. Then, in each of R rounds, when their access tokens have expired, every browser sends P
concurrent requests, each to one of the two processes. The provider takes 150 ms for a refresh, revokes a session whose refresh token is
reused, and counts refreshes and reuses.

Needs Debian's packages apache2 and libapache2-mod-auth-openidc, and must run as root because of Apache.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ports import free_port, wait_until_open

LIFETIME, DELAY = 3, 150
MODULES = "mpm_event authn_core authz_core authz_user dir".split()


class Browser:
    """Stores cookies, and follows redirects. It treats the two processes of an application as one site."""

    def __init__(self):
        self.cookies = {}

    def get(self, url, port=None):
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection("127.0.0.1", port or parts.port, timeout=30)
        path = parts.path + ("?" + parts.query if parts.query else "")
        fields = {"Host": parts.netloc, "Accept": "text/html"}
        if self.cookies:
            fields["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection.request("GET", path or "/", headers=fields)
        response = connection.getresponse()
        body = response.read()
        for field in response.headers.get_all("Set-Cookie") or []:
            name, _, value = field.split(";")[0].partition("=")
            self.cookies[name] = value
        connection.close()
        return response.status, response.headers.get("Location"), body

    def sign_in(self, url):
        for _ in range(10):
            status, location, body = self.get(url)
            if status not in (302, 303):
                return status
            url = urllib.parse.urljoin(url, location)
        return 0


def measure(name, issuer, start, page, ports, options):
    def counts():
        with urllib.request.urlopen(f"{issuer}/counts", timeout=20) as response:
            return json.load(response)

    browsers = [Browser() for _ in range(options.sessions)]
    for browser in browsers:
        if browser.sign_in(start) != 200:
            sys.exit(f"{name}: a user could not sign in")
    before, statuses, times = counts(), {}, []
    rounds = []
    with concurrent.futures.ThreadPoolExecutor(options.sessions * options.parallel) as pool:
        for _ in range(options.rounds):
            time.sleep(LIFETIME + 0.1)

            def visit(browser):
                began = time.monotonic()
                status, _, body = browser.get(page, random.choice(ports))
                # A page without a signed-in user counts as a redirect to the provider.
                if status == 200 and b"No user is signed in" in body:
                    status = 302
                return status, time.monotonic() - began

            for status, duration in pool.map(visit, [browser for browser in browsers for _ in range(options.parallel)]):
                statuses[status] = statuses.get(status, 0) + 1
                times.append(duration)
            rounds.append(counts()["refreshes"] - before["refreshes"])
    after = counts()
    time.sleep(LIFETIME + 0.1)
    kept = sum(browser.get(page, random.choice(ports))[0] == 200 for browser in browsers)
    if name == "AuthFlow":
        kept = sum(b"Signed in as" in browser.get(page)[2] for browser in browsers)
    times.sort()
    wanted = options.sessions * options.rounds
    refreshes, reuses = after["refreshes"] - before["refreshes"], after["reuses"] - before["reuses"]
    print(
        f"| {name} | {options.sessions} | {options.parallel} | {wanted} | {refreshes} | {reuses} | {options.sessions - kept} | "
        f"{', '.join(f'{count} x {status}' for status, count in sorted(statuses.items()))} | "
        f"{times[len(times) // 2] * 1000:.0f} ms | {times[len(times) * 99 // 100] * 1000:.0f} ms |", flush=True)
    return reuses, options.sessions - kept


def apache(folder, issuer, redis_port):
    first = free_port()
    ports = [first, free_port()]
    (folder / "www" / "protected").mkdir(parents=True)
    (folder / "www" / "protected" / "index.html").write_text("signed in")
    processes = []
    for port in ports:
        place = folder / str(port)
        place.mkdir()
        (place / "httpd.conf").write_text("\n".join([
            f"ServerRoot {place}", "ServerName 127.0.0.1", f"Listen 127.0.0.1:{port}", f"PidFile {place}/pid",
            f"DefaultRuntimeDir {place}", f"ErrorLog {place}/log", "User www-data", "Group www-data",
            f"DocumentRoot {folder}/www", *[f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in MODULES],
            "LoadModule auth_openidc_module /usr/lib/apache2/modules/mod_auth_openidc.so", "DirectoryIndex index.html",
            f"OIDCProviderMetadataURL {issuer}/.well-known/openid-configuration", "OIDCClientID apache",
            "OIDCClientSecret a-secret", f"OIDCRedirectURI http://127.0.0.1:{first}/protected/callback",
            "OIDCCryptoPassphrase the-same-everywhere", "OIDCScope openid", "OIDCCacheType redis",
            f"OIDCRedisCacheServer 127.0.0.1:{redis_port}", "OIDCCacheEncrypt On", "OIDCSessionType server-cache",
            "OIDCSessionInactivityTimeout 3600", "OIDCSessionMaxDuration 3600",
            "OIDCRefreshAccessTokenBeforeExpiry 1 logout_on_error",
            "<Location /protected>", "AuthType openid-connect", "Require valid-user", "</Location>", ""]))
        processes.append(subprocess.Popen(["apache2", "-f", str(place / "httpd.conf"), "-DFOREGROUND"]))
        wait_until_open(port, processes[-1])
    return processes, ports


def ours(folder, issuer, program):
    first = free_port()
    ports = [first, free_port()]
    (folder / "authflow.json").write_text(json.dumps({"profiles": {"web": {
        "provider": "oidc", "issuer": issuer, "client_id": "web", "client_secret": {"env": "WEB_SECRET"},
        "redirect_uri": f"http://127.0.0.1:{first}/callback", "scopes": ["openid"],
        "store": {"name": "redis", "url": os.environ["AUTHFLOW_REDIS"]}}}}))
    processes = []
    for port in ports:
        processes.append(subprocess.Popen(
            [program, str(folder / "authflow.json"), "--port", str(port)], env={**os.environ, "WEB_SECRET": "a-secret"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_until_open(port, processes[-1])
    return processes, ports


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("session_soak")
    parser.add_argument("web_login")
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    processes = []
    print("| product | sessions | concurrent requests | refreshes expected | refreshes | reuses | sessions lost | HTTP | p50 | p99 |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        try:
            provider = subprocess.Popen(
                [options.session_soak, "provider", str(LIFETIME), str(DELAY)], stdout=subprocess.PIPE, text=True)
            processes.append(provider)
            issuer = provider.stdout.readline().strip()
            started, ports = ours(folder, issuer, options.web_login)
            processes += started
            found = measure("AuthFlow", issuer, f"http://127.0.0.1:{ports[0]}/login", f"http://127.0.0.1:{ports[0]}/", ports, options)
            redis_port = free_port()
            processes.append(subprocess.Popen(
                ["redis-server", "--port", str(redis_port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", name],
                stdout=subprocess.DEVNULL))
            wait_until_open(redis_port, processes[-1])
            started, ports = apache(folder, issuer, redis_port)
            processes += started
            page = f"http://127.0.0.1:{ports[0]}/protected/index.html"
            measure("mod_auth_openidc", issuer, page, page, ports, options)
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait()
    if found != (0, 0):
        sys.exit("AuthFlow used a refresh token twice, or lost a session")


main()
