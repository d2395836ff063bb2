#!/usr/bin/env python3
"""Signs in with the command-line tool at a provider of django_provider.py:

    providers.py PATH/TO/authflow toolkit|allauth

Prints what was tried. Exits with status 1 at the first unexpected result.
"""
import contextlib, http.cookiejar, json, os, pathlib, re, socket, subprocess, sys, tempfile, urllib.parse, urllib.request

TOOL, KIND = sys.argv[1], sys.argv[2]
HERE = pathlib.Path(__file__).resolve().parent
SECRETS = {"PASSWORD": "wonderland", "WRONG": "looking-glass", "SECRET": "a secret: of both%kinds", "PLAIN": "plain-secret",
           "SYMMETRIC": "hs-secret-0123456789-0123456789-012345", "MACHINE": "machine-secret"}


def fail(message):
    sys.exit(f"providers: {KIND}: {message}")


class Tool:
    """The tool, with a home directory and a configuration file."""

    def __init__(self, directory):
        self.directory = directory
        self.file = directory / "authflow.json"
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "XDG_RUNTIME_DIR": str(directory), "LANG": "C.UTF-8", **SECRETS}

    def write(self, profiles):
        self.file.write_text(json.dumps({"profiles": profiles}))
        self.file.chmod(0o600)

    def run(self, *arguments, exits=0, says=""):
        """Runs a command, and returns its output; fails if its exit status, message or output is unexpected."""
        ran = subprocess.run([TOOL, *arguments, *([] if "--output" in arguments else ["--config", str(self.file)])],
                             env=self.environment, cwd=self.directory, capture_output=True, text=True, timeout=60)
        line = " ".join(arguments)
        if ran.returncode != exits or says not in ran.stderr + ran.stdout:
            fail(f"authflow {line}: status {ran.returncode}, expected {exits} and \"{says}\"\n{ran.stdout}{ran.stderr}")
        for secret in SECRETS.values():
            if secret in ran.stdout + ran.stderr:
                fail(f"authflow {line} prints a secret")
        return ran.stdout


class Browser:
    """Follows redirects and submits forms."""

    def __init__(self):
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    def open(self, url, data=None):
        request = urllib.request.Request(url, data and urllib.parse.urlencode(data).encode(), {"Referer": url})
        with self.opener.open(request, timeout=30) as response:
            return response.geturl(), response.read().decode()

    def submit(self, page, values, having):
        """Submits the form that has a field of this name."""
        url, text = page
        form = next(form for form in re.findall(r"(?s)<form.*?</form>", text) if f'name="{having}"' in form)
        fields = dict(re.findall(r'<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"', form))
        action = re.search(r'<form[^>]*action="([^"]*)"', form)
        target = urllib.parse.urljoin(url, action[1] if action and action[1] else url)
        if re.match(r'<form[^>]*method="get"', form):
            return self.open(f"{target.split('?')[0]}?{urllib.parse.urlencode(fields | values)}")
        return self.open(target, fields | values)


@contextlib.contextmanager
def provider(directory):
    # The provider inherits the listening socket, so that no other program can bind its port.
    with socket.create_server(("127.0.0.1", 0)) as listening, open(directory / "log", "w") as log:
        port = listening.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", HERE / "django_provider.py", KIND, str(port), str(directory), str(listening.fileno())],
            pass_fds=[listening.fileno()], stdout=log, stderr=log)
    try:
        origin = f"http://127.0.0.1:{port}"
        path = "/o/.well-known/openid-configuration" if KIND == "toolkit" else "/.well-known/openid-configuration"
        # Connections wait until the provider accepts them.
        with urllib.request.urlopen(origin + path, timeout=60):
            pass
        yield origin
    except Exception:
        sys.stderr.write((directory / "log").read_text())
        raise
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def sessions(tool, origin, base):
    agent = {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": [origin]}
    user = base | {"scopes": ["openid", "profile", "email", "offline_access"], "user_agent": agent}
    confidential = {"client_id": "confidential", "client_secret": {"env": "SECRET" if KIND == "toolkit" else "PLAIN"}}
    profiles = {
        "public": user | {"client_id": "public"},
        "confidential": user | confidential,
        "post": user | confidential | {"client_authentication": "client_secret_post"},
        "wrong-password": user | {"client_id": "public", "user_agent": agent | {"password": {"env": "WRONG"}}},
        "wrong-secret": user | confidential | {"client_secret": {"env": "WRONG"}},
        "machine": base | {"client_id": "machine", "client_secret": {"env": "MACHINE"}, "flow": "client_credentials", "scopes": ["read"]},
        "device": base | {"client_id": "device", "flow": "device", "scopes": ["openid", "profile"]},
        "symmetric": user | {"client_id": "symmetric", "client_secret": {"env": "SYMMETRIC"}},
        "symmetric-listed": user | {
            "client_id": "symmetric", "client_secret": {"env": "SYMMETRIC"}, "id_token_signing_algorithms": ["HS256"]},
    }
    tool.write(profiles)
    for name in ["public", "confidential", "post"]:
        tool.run("login", "--profile", name, says="Signed in as")
        first = tool.run("token", "--profile", name)
        # Each refresh token is used once, so a second refresh shows that the first one was stored.
        others = [tool.run("token", "--refresh", "--profile", name) for _ in range(2)]
        if len({first, *others}) != 3:
            fail(f"{name}: a refresh returned an old token")
        if not json.loads(tool.run("userinfo", "--profile", name)).get("sub"):
            fail(f"{name}: userinfo has no sub")
        if name != "post":
            tool.run("logout", "--profile", name)
            tool.run("token", "--profile", name, exits=4)
    # The session ends at the provider.
    urllib.request.urlopen(urllib.request.Request(f"{origin}/forget", b"", method="POST"), timeout=30).close()
    tool.run("token", "--refresh", "--profile", "post", exits=4, says="ended by the provider")
    print(f"{KIND}: three clients signed in and refreshed twice, and two signed out; a session that has ended requires a sign-in")

    tool.run("login", "--profile", "wrong-password", exits=5, says="did not accept the user name and password. The page at")
    tool.run("login", "--profile", "wrong-secret", exits=1, says='Check "client_id", "client_secret" and "client_authentication"')
    tool.run("login", "--profile", "machine")
    tool.run("userinfo", "--profile", "machine", exits=1)
    tool.run("logout", "--browser", "--profile", "machine", says="The tokens were revoked.")
    if KIND == "toolkit":
        tool.run("login", "--profile", "symmetric", exits=1, says='must list it in "id_token_signing_algorithms"')
        tool.run("login", "--profile", "symmetric-listed", says="Signed in as")
    print(f"{KIND}: a wrong password, a wrong secret, a machine-to-machine client")
    return profiles


def registration(tool, profiles, issuer):
    """A client that the tool registers can refresh."""
    file = tool.directory / "registered.json"
    tool.run("register", issuer, "--output", str(file))
    registered = json.loads(file.read_text())["profiles"]["default"]["client_id"]
    tool.write({"registered": profiles["public"] | {"client_id": registered, "scopes": ["openid"]}})
    if KIND == "toolkit":
        # It registers a client without an algorithm for its ID Tokens, and then fails to issue one.
        return print(f"{KIND}: a client was registered")
    tool.run("login", "--profile", "registered", says="Signed in as")
    tool.run("token", "--refresh", "--profile", "registered")
    print(f"{KIND}: a registered client signed in and refreshed")


def device(tool, profiles):
    """The response of the device flow has no ID Token, so the userinfo endpoint identifies the user."""
    tool.write(profiles)
    with subprocess.Popen(["timeout", "60", TOOL, "login", "--profile", "device", "--config", tool.file], env=tool.environment,
                          cwd=tool.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        talk = ""
        while not (code := re.search(r"enter this code:\s+(\S+)", talk)):
            line = process.stdout.readline() or fail(f"the device flow did not start: {talk}")
            talk += line
        browser = Browser()
        page = browser.open(re.search(r"http://\S+", talk)[0])
        page = browser.submit(page, {"login": "alice", "password": "wonderland"}, having="password")
        page = browser.submit(page, {"code": code[1]}, having="code")
        browser.submit(page, {"action": "confirm"}, having="action")
        talk += process.stdout.read()
        if process.wait(30) != 0 or "Signed in as" not in talk:
            fail(f"the device flow failed: {talk}")
    if json.loads(tool.run("status", "--json", "--profile", "device"))["subject"] is None:
        fail("the user of the device flow is not known")
    tool.run("token", "--refresh", "--profile", "device")
    print(f"{KIND}: the device flow, without an ID Token")


with tempfile.TemporaryDirectory() as folder:
    directory = pathlib.Path(folder)
    (directory / "home").mkdir(mode=0o700)
    tool = Tool(directory / "home")
    with provider(directory) as origin:
        issuer = f"{origin}/o" if KIND == "toolkit" else origin
        profiles = sessions(tool, origin, {"provider": "oidc", "issuer": issuer, "store": "file"})
        registration(tool, profiles, issuer)
        if KIND == "allauth":
            device(tool, profiles)
