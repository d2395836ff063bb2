#!/usr/bin/env python3
"""Makes real programs request credentials from the tool, against loopback servers that check their requests.

Usage: helpers.py PATH/TO/authflow FOLDER-OF-AWS-AND-MOTO
"""

import base64
import concurrent.futures
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ports import free_port, wait_until_open

tool, cloud = sys.argv[1], sys.argv[2]
work = pathlib.Path(tempfile.mkdtemp())
LIFETIME = 20


@contextlib.contextmanager
def program(*command, **options):
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def run(*command, status=0, environment={}, **options):
    result = subprocess.run(command, env={**base, **environment}, capture_output=True, text=True, timeout=120, **options)
    if status is not None and (result.returncode == 0) != (status == 0):
        raise SystemExit(f"{' '.join(map(str, command))} exited with status {result.returncode}:\n{result.stdout}\n{result.stderr}")
    return result


def expect(what, is_so, shown=""):
    if not is_so:
        sys.exit(f"failed: {what}\n{shown}")


def refreshes():
    """The number of token requests that the provider has received."""
    return (work / "idp.log").read_text().count("POST /token")


def is_active(token):
    request = urllib.request.Request(f"{issuer}/userinfo", headers={"Authorization": f"Bearer {token}"})
    try:
        return urllib.request.urlopen(request, timeout=30).status == 200
    except urllib.error.HTTPError:
        return False


def until_expired():
    time.sleep(LIFETIME + 1)


def expect_one_refresh(call):
    """Makes twenty concurrent calls after the token has expired. More refreshes are allowed if the new token expires meanwhile on a slow machine."""
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        until_expired()
        before, began = refreshes(), time.monotonic()
        list(pool.map(lambda _: call(), range(20)))
    count = refreshes() - before
    expect("20 concurrent calls after expiry refresh once", 1 <= count <= 1 + (time.monotonic() - began) // (LIFETIME / 2), count)


def serve(handler, context=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def reply(self, status, body=b"", fields={}):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def has_password(self, user):
        """Whether the request has the user name and an active access token."""
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind != "Basic":
            return False
        name, _, password = base64.b64decode(value).decode().partition(":")
        return name == user and is_active(password)


# MARK: kubectl


def kubernetes():
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", work / "k.key", "-out", work / "k.pem")
    seen = []

    class API(Quiet):
        def do_GET(self):
            seen.append(self.headers.get("Authorization", ""))
            token = seen[-1].removeprefix("Bearer ")
            ok = claims(token)["exp"] > time.time() if token.count(".") == 2 else is_active(token)
            self.reply(200 if ok else 401, b'{"major":"1"}' if ok else b"{}", {"Content-Type": "application/json"})

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(work / "k.pem", work / "k.key")
    server = serve(API, context)
    url = f"https://127.0.0.1:{server.server_port}"
    configure(kubernetes={"servers": [url], "ca_file": str(work / "k.pem")})

    def kubeconfig(version="v1beta1", profile="dev", tells=True):
        path = work / "kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": str(work / "k.pem")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"exec": {
                "apiVersion": f"client.authentication.k8s.io/{version}", "command": tool, "provideClusterInfo": tells,
                "args": ["credential", "kubernetes", "--profile", profile], "interactiveMode": "Never"}}}]}))
        return path

    def get(status=0, **options):
        return run("kubectl", "--kubeconfig", kubeconfig(**options), "get", "--raw", "/version", status=status)

    expect("kubectl receives a response", '"major"' in get().stdout)
    expect("kubectl sends an ID Token", all(claims(field[7:])["aud"] == "authflow-demo" for field in seen), seen)
    configure(kubernetes={"servers": [url], "ca_file": str(work / "k.pem"), "token": "access_token"})
    path = kubeconfig()
    expect_one_refresh(lambda: run("kubectl", "--kubeconfig", path, "get", "--raw", "/version"))
    expect("no token is returned without the server's name", "provideClusterInfo" in get(status=1, tells=False).stderr)
    configure(kubernetes={"servers": ["https://other.example.com"], "ca_file": str(work / "k.pem")})
    expect("no token is returned for another server", "is not listed in" in get(status=1).stderr)
    configure(kubernetes={"servers": [url]})
    expect("no token is returned for a custom certificate authority in the kubeconfig file", "certificate authority" in get(status=1).stderr)
    configure(kubernetes={})
    newer = get(status=None, version="v1")
    expect("v1 is supported if kubectl supports it", '"major"' in newer.stdout or "invalid apiVersion" in newer.stderr)
    expect("a user who is not signed in sees the login command", "authflow login" in get(status=1, profile="out").stderr)
    server.shutdown()
    print("kubectl: one refresh for 20 calls, only the configured server, and the login command if no user is signed in")


# MARK: git


def git():
    root = work / "git"
    run("git", "init", "--quiet", "--bare", root / "team/repo.git")
    run("git", "-C", root / "team/repo.git", "config", "http.receivepack", "true")
    backend = pathlib.Path(run("git", "--exec-path").stdout.strip()) / "git-http-backend"
    refused = []

    class Git(Quiet):
        def handle_git(self):
            if not self.has_password("oauth2"):
                refused.append(self.headers.get("Authorization"))
                return self.reply(401, b"", {"WWW-Authenticate": 'Basic realm="git"'})
            path, _, query = self.path.partition("?")
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            result = subprocess.run([backend], input=body, capture_output=True, env={
                "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
                "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(length), "REMOTE_USER": "alice", "PATH": os.environ["PATH"],
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", "")})
            head, _, content = result.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
            self.reply(int(fields.pop("Status", "200").split()[0]), content, fields)

        do_GET = do_POST = handle_git

    server = serve(Git)
    host = f"127.0.0.1:{server.server_port}"
    configure(git={"hosts": [host]})
    url = f"http://{host}/team/repo.git"
    os.symlink(tool, work / "bin/git-credential-authflow")

    def call(*arguments, **options):
        return run("git", "-c", "credential.helper=", "-c", "credential.helper=authflow", *arguments, **options)

    clone = work / "clone"
    call("clone", "--quiet", url, clone)
    (clone / "file").write_text("content\n")
    run("git", "-C", clone, "add", "file")
    run("git", "-C", clone, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "one")
    call("-C", clone, "push", "--quiet", "origin", "HEAD:main")
    expect("the pushed branch exists", "refs/heads/main" in call("ls-remote", url).stdout)
    expect_one_refresh(lambda: call("ls-remote", url))

    # The server rejects an unexpired token: Git erases it, and the next call receives a different token.
    token = run(tool, "token").stdout.strip()
    urllib.request.urlopen(urllib.request.Request(
        f"{issuer}/revoke", f"token={token}&client_id=authflow-demo".encode()), timeout=30)
    if not is_active(token):
        expect("a revoked token is rejected", call("ls-remote", url, status=1).returncode == 128)
        expect("the next call has a newer token", "refs/heads/main" in call("ls-remote", url).stdout)
    asked = lambda text: run(tool, "credential", "git", "get", input=text, environment={}).stdout
    expect("another host receives no token", asked(f"protocol=https\nhost=other.example.com\n\n") == "")
    expect("another user receives no token", asked(f"protocol=http\nhost={host}\nusername=bob\n\n") == "")
    # A caller that leaves its pipe open, in a directory with a foreign configuration file.
    (clone / "authflow.json").write_text('{"profiles": {"dev": {"provider": "oidc", "issuer": "https://evil.example", "client_id": "x"}}}')
    waiting = subprocess.Popen([tool, "credential", "git", "get"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=clone,
                               env={name: value for name, value in {**base, "XDG_CONFIG_HOME": str(work / "xdg")}.items()
                                    if name != "AUTHFLOW_CONFIG"})
    (work / "xdg/authflow").mkdir(parents=True)
    shutil.copy(work / "config.json", work / "xdg/authflow/config.json")
    waiting.stdin.write(f"protocol=http\nhost={host}\n\n".encode())
    waiting.stdin.flush()
    expect("the user's own file is used, and an empty line ends the request",
           waiting.wait(60) == 0 and b"password=" in waiting.stdout.read())
    expect("a remote host without TLS receives no token", asked("protocol=http\nhost=git.example.com\n\n") == "")
    server.shutdown()
    print("git: clone, push, one refresh for 20 calls, a newer token after a rejection, and no token for other hosts")


# MARK: skopeo


def docker():
    port = free_port()
    (work / "registry.yml").write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {work}/registry}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n")
    with program("docker-registry", "serve", work / "registry.yml", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as registry:
        wait_until_open(port, registry)

        class Registry(Quiet):
            def handle_any(self):
                if not self.has_password("oauth2"):
                    return self.reply(401, b"{}", {"WWW-Authenticate": 'Basic realm="registry"'})
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers.get("Transfer-Encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline().strip(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                fields = {name: ", ".join(self.headers.get_all(name)) for name in self.headers
                          if name.lower() not in ("authorization", "transfer-encoding", "content-length")}
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}{self.path}", body or None, fields, method=self.command)
                try:
                    reply = urllib.request.urlopen(request, timeout=30)
                except urllib.error.HTTPError as error:
                    reply = error
                content = reply.read()
                fields = {name: value for name, value in reply.headers.items()
                          if name.lower() not in ("content-length", "transfer-encoding", "connection", "date")}
                if self.command == "HEAD":
                    self.send_response(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    return self.end_headers()
                self.reply(reply.status, content, fields)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = handle_any

        server = serve(Registry)
        host = f"127.0.0.1:{server.server_port}"
        configure(docker={"registries": [host]})
        os.symlink(tool, work / "bin/docker-credential-authflow")
        (work / "docker.json").write_text(json.dumps({"credHelpers": {host: "authflow", "127.0.0.1:1": "authflow"}}))
        (work / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        image = work / "image"
        make_image(image)
        environment = {"REGISTRY_AUTH_FILE": str(work / "docker.json")}

        def skopeo(*arguments, **options):
            return run("skopeo", "--policy", work / "policy.json", *arguments, environment=environment, **options)

        skopeo("copy", "--dest-tls-verify=false", f"oci:{image}:x", f"docker://{host}/a/b:x")
        shown = skopeo("inspect", "--tls-verify=false", f"docker://{host}/a/b:x").stdout
        expect("the pushed image exists", json.loads(shown)["Name"].endswith("/a/b"))
        until_expired()
        skopeo("inspect", "--tls-verify=false", f"docker://{host}/a/b:x")
        ask = lambda operation, text: run("docker-credential-authflow", operation, input=text, status=None)
        answer = ask("get", "other.example.com")
        expect("another registry has no credential",
               answer.returncode == 1 and answer.stdout == "credentials not found in native keychain\n", answer)
        expect("nothing is stored", ask("store", '{"ServerURL":"x","Username":"u","Secret":"s"}').returncode == 1)
        expect("the registries are listed", json.loads(ask("list", "").stdout) == {host: "oauth2"})
        server.shutdown()
    print("skopeo: a push and two inspections with fresh tokens, and no credential for other registries")


def make_image(folder):
    """An OCI image without layers."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(content):
        import hashlib
        data = json.dumps(content).encode()
        name = hashlib.sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        return {"digest": f"sha256:{name}", "size": len(data)}

    configuration = blob({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}})
    manifest = blob({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": [],
                     "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **configuration}})
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json", **manifest,
        "annotations": {"org.opencontainers.image.ref.name": "x"}}]}))


# MARK: AWS


def aws():
    port = free_port()
    log = open(work / "moto.log", "w")
    with program(f"{cloud}/moto_server", "-H", "127.0.0.1", "-p", str(port), stdout=log, stderr=log) as server:
        wait_until_open(port, server)
        configure(aws={"role_arn": "arn:aws:iam::123456789012:role/robot", "session_name": "robot",
                       "endpoint": f"http://127.0.0.1:{port}/"})
        (work / "aws").write_text(f"[default]\ncredential_process = {tool} credential aws --profile dev\nregion = eu-central-1\n")
        environment = {"AWS_CONFIG_FILE": str(work / "aws"), "AWS_SHARED_CREDENTIALS_FILE": str(work / "none"),
                       "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(work)}

        def call(status=0):
            return run(f"{cloud}/aws", "--endpoint-url", f"http://127.0.0.1:{port}", "sts", "get-caller-identity",
                       "--query", "Arn", "--output", "text", environment=environment, status=status)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: call().stdout.strip(), range(4)))
        expect("each call has the role", all(text.endswith("assumed-role/robot/robot") for text in results), results)
        keys = [json.loads(run(tool, "credential", "aws", "--profile", "dev").stdout) for _ in range(2)]
        expect("one exchange serves all calls", keys[0] == keys[1] and keys[0]["Version"] == 1)
        stored = b"".join(path.read_bytes() for path in (work / "store").rglob("*") if path.is_file())
        expect("the store contains the keys", keys[0]["AccessKeyId"].encode() in stored)
    run(tool, "logout", "--profile", "dev")
    stored = b"".join(path.read_bytes() for path in (work / "store").rglob("*") if path.is_file())
    expect("a sign-out removes the keys", keys[0]["AccessKeyId"].encode() not in stored)
    print("aws: one exchange returns the role's keys to several programs")


# MARK: authflow exec


def programs():
    """Signals a program whose token is in a file: it receives the signal, its status is returned, and the file is deleted."""
    loop = 'echo "$F"; for i in $(seq 40); do sleep 0.1; done'
    for name, script, number, to_all, before, status in [
        ("TERM, which it handles", "trap 'exit 9' TERM; " + loop, signal.SIGTERM, False, [], 9),
        ("TERM", loop, signal.SIGTERM, False, [], 128 + signal.SIGTERM),
        ("TERM, which it ignores", "trap '' TERM; " + loop, signal.SIGTERM, False, [], 0),
        ("Ctrl-C, which it handles", "trap 'exit 8' INT; " + loop, signal.SIGINT, True, [], 8),
        ("Ctrl-C", loop, signal.SIGINT, True, [], 128 + signal.SIGINT),
        ("a closed terminal", loop, signal.SIGHUP, False, [], 128 + signal.SIGHUP),
        ("a closed terminal, under nohup", loop, signal.SIGHUP, False, ["nohup"], 0),
    ]:
        process = subprocess.Popen([*before, tool, "exec", "--file", "F", "--", "sh", "-c", script], env=base, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        path = process.stdout.readline().strip()
        expect(f"{name}: the file exists", os.path.exists(path))
        (os.killpg if to_all else os.kill)(process.pid, number)
        ended = process.wait(60)
        expect(f"{name}: status {status}", ended == status, ended)
        expect(f"{name}: the file is deleted", not os.path.exists(path))
    print("exec: a program with a token file receives its signals, and leaves no token behind")


# MARK: The rest


def claims(token):
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def configure(**helpers):
    profile = {"provider": "oidc", "issuer": issuer, "client_id": "authflow-demo",
               "scopes": ["openid", "profile", "offline_access"],
               "user_agent": {"name": "headless", "username": "alice", "password": {"env": "PW"}, "origins": [issuer]},
               "store": {"name": "file", "directory": str(work / "store")}}
    path = work / "config.json"
    path.write_text(json.dumps({"default_profile": "dev", "profiles": {
        "dev": {**profile, "helpers": helpers},
        "out": {**profile, "helpers": {"kubernetes": {}}, "store": {"name": "file", "directory": str(work / "empty")}}}}))
    path.chmod(0o600)


try:
    (work / "bin").mkdir()
    base = {"PATH": f"{work}/bin:{os.environ['PATH']}", "HOME": str(work), "PW": "wonderland", "LANG": "C.UTF-8",
            "AUTHFLOW_CONFIG": str(work / "config.json"), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    os.symlink(tool, work / "bin/authflow")
    with program(tool, "dev-idp", "--token-lifetime", str(LIFETIME), stdout=subprocess.PIPE, stderr=open(work / "idp.log", "w"),
                 text=True) as provider:
        issuer = provider.stdout.readline().strip()
        configure()
        run(tool, "login")
        for part in (kubernetes, git, docker, programs, aws):
            part()
finally:
    shutil.rmtree(work, ignore_errors=True)
