"""Signs in to third-party MCP servers: mcp_interop.py AUTHFLOW PACKAGES FOLDER

Each line of the output is a check and its result; the exit status is 1 when a check failed.
"""
import asyncio
import os
import pathlib
import subprocess
import sys

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

AUTHFLOW, PACKAGES, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from ports import free_port, wait_until_open
failures = []

browser = FOLDER / "browser"
browser.write_text('#!/bin/sh\nexec curl -sL -o /dev/null --max-time 20 "$1"\n')
browser.chmod(0o700)


def environment(name):
    return {
        "PATH": os.environ["PATH"], "HOME": str(FOLDER), "XDG_DATA_HOME": str(FOLDER / "data" / name),
        "XDG_CONFIG_HOME": str(FOLDER / "config"), "BROWSER": str(browser), "DISPLAY": ":0",
    }


class Server:
    """A server on a free port, which is stopped at the end of the block."""

    def __init__(self, *command):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.command = [str(part).replace("PORT", str(self.port)) for part in command]

    def __enter__(self):
        self.log = open(FOLDER / f"server-{self.port}.log", "w")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        wait_until_open(self.port, self.process)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def authlab(*arguments):
    return Server(PACKAGES / "bin" / "mcp-authlab", "fixture", *arguments, "--port", "PORT", "--auto-consent")


def authflow(name, *arguments):
    return subprocess.run(
        [AUTHFLOW, *arguments], env=environment(name), capture_output=True, text=True, timeout=60, check=False
    )


def check(what, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {what}{': ' + detail if detail else ''}", flush=True)
    if not condition:
        failures.append(what)


def last_words(result):
    lines = [line for line in result.stderr.splitlines() if line.startswith("authflow: ")]
    return lines[-1][10:] if lines else ""


def signs_in(name, *arguments, options=()):
    with authlab(*arguments) as server:
        login = authflow(name, "login", server.url, *options)
        token = authflow(name, "token", server.url)
        check(f"signs in to authlab {name}", login.returncode == 0 and token.stdout.strip() != "", last_words(login)[:200])


def refuses(name, words, *arguments, options=()):
    with authlab(*arguments) as server:
        login = authflow(name, "login", server.url, *options)
        token = authflow(name, "token", server.url)
        said = last_words(login)
        check(f"rejects authlab {name}", login.returncode != 0 and token.returncode == 4 and words in said, said[:300])


async def through_bridge(name, url, tool, arguments, expected):
    parameters = StdioServerParameters(command=AUTHFLOW, args=["mcp", "connect", url], env=environment(name))
    with open(FOLDER / "bridge.log", "a") as log:
        async with stdio_client(parameters, errlog=log) as (reading, writing):
            async with ClientSession(reading, writing) as session:
                await session.initialize()
                tools = [found.name for found in (await session.list_tools()).tools]
                result = await session.call_tool(tool, arguments)
                text = result.content[0].text
                check(f"calls {tool} of {name} through the bridge", tool in tools and text == expected, text)
                return session


def bridge(*arguments):
    try:
        asyncio.run(through_bridge(*arguments))
    except BaseException as error:
        while getattr(error, "exceptions", None):
            error = error.exceptions[0]
        check(f"calls {arguments[2]} of {arguments[0]} through the bridge", False, repr(error))


reference = ("--profile", "reference")
for flag in ["", "bare_401", "no_scope_challenge", "forbid_instead", "stateless", "no_iss", "opaque_tokens", "strict_resource"]:
    signs_in(flag or "reference", *reference, *(["--flag", flag] if flag else []))
for profile in ["passthrough", "open"]:
    signs_in(profile, "--profile", profile)

refuses("legacy", "does not name an authorization server", "--profile", "legacy")
refuses("weak-as", "does not advertise PKCE with S256", "--profile", "weak-as")
refuses("mismatch", "is for the resource", "--profile", "mismatch")
refuses("sloppy", "does not support dynamic client registration", "--profile", "sloppy")
refuses("wrong_resource", "is for the resource", *reference, "--flag", "wrong_resource")
refuses("http_as", "only https is safe", *reference, "--flag", "http_as")
refuses("no_pkce", "does not advertise PKCE with S256", *reference, "--flag", "no_pkce")
refuses("no_prm", "does not name an authorization server", *reference, "--flag", "no_prm")
refuses("drop_iss", "does not contain the issuer", *reference, "--flag", "drop_iss")
refuses("issuer_trailing_slash", "issuer other than", *reference, "--flag", "issuer_trailing_slash")
signs_in("no_prm by name", *reference, "--flag", "no_prm", options=["--assume-origin"])

with authlab(*reference) as server:
    bridge("authlab", server.url, "echo", {"text": "hello"}, "hello")
    bridge("authlab", server.url, "list_secrets", {}, "db-password, api-key")
    status = authflow("authlab", "status", server.url)
    check("steps up with both scopes", "mcp:tools mcp:admin" in status.stdout, status.stdout.replace("\n", " ")[:200])
    logout = authflow("authlab", "logout", server.url)
    check("signs out", authflow("authlab", "token", server.url).returncode == 4, logout.stderr.replace("\n", " ")[:200])

with Server(PACKAGES / "bin" / "python", HERE / "fastmcp_server.py", "PORT") as server:
    bridge("fastmcp", server.url, "hello", {}, "hello")
    answer = authflow(
        "fastmcp", "curl", server.url, "-H", "Accept: application/json, text/event-stream", "-d",
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        '"clientInfo":{"name":"x","version":"1"}}}',
    )
    check("sends a request to fastmcp", answer.returncode == 0 and "protocolVersion" in answer.stdout, last_words(answer)[:200])

journal = FOLDER / "journal"
with Server(PACKAGES / "bin" / "python", HERE / "mcp_server.py", "PORT", journal, "2") as server:
    # Tokens expire after 2 seconds, so the calls are repeated until one requires a refresh.
    for _ in range(100):
        bridge("mcp", server.url, "add", {"a": 1, "b": 2}, "3")
        events = journal.read_text().splitlines()
        if "refresh" in events:
            break
    check("refreshes expired tokens", events.count("refresh") >= 1 and "reuse" not in events, " ".join(events))

sys.exit(1 if failures else 0)
