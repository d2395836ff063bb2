#!/usr/bin/env python3
"""A newcomer's first minutes, typed into a terminal: authflow init at the bundled provider, a sign-in, a token, a sign-out.

    first_minutes.py TRANSCRIPT [--write] COMMAND...

COMMAND is the command line that runs the tool. The terminal output must match TRANSCRIPT, in which ports, identifiers,
times and tokens are omitted; --write writes TRANSCRIPT. The script fails if it takes longer than 60 s.
"""

import html
import http.cookiejar
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import time
import urllib.parse
import urllib.request

transcript = pathlib.Path(sys.argv[1])
writes = sys.argv[2] == "--write"
command = sys.argv[3 if writes else 2:]
shown = []
start = time.monotonic()


def say(text):
    shown.append(text)


class Terminal:
    """A command in a separate terminal."""

    def __init__(self, *arguments):
        say(f"$ authflow {' '.join(arguments)}\n")
        self.text, self.read = "", 0
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execvp(command[0], [*command, *arguments])

    def until(self, pattern):
        """Waits until the terminal shows something, and returns the match."""
        while not (match := re.compile(pattern).search(self.text, self.read)):
            if not self.more():
                sys.exit(f"first_minutes: {pattern!r} was never shown:\n{self.text}")
        self.read = match.end()
        return match

    def more(self):
        if time.monotonic() - start > 60:
            sys.exit(f"first_minutes: this takes longer than a minute:\n{self.text}")
        if not select.select([self.terminal], [], [], 1)[0]:
            return True
        try:
            data = os.read(self.terminal, 4096)
        except OSError:
            data = b""
        self.text += data.decode().replace("\r\n", "\n")
        return bool(data)

    def type(self, line):
        os.write(self.terminal, f"{line}\n".encode())

    def end(self):
        while self.more():
            pass
        say(self.text)
        _, status = os.waitpid(self.process, 0)
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)


def sign_in(url):
    """Performs the user's actions in a browser."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    reply = browser.open(url, timeout=10)
    for answers in ({"username": "alice", "password": "wonderland"}, {}):
        page, address = reply.read().decode(), reply.geturl()
        action = re.search(r'<form[^>]* action="([^"]+)"', page)
        if not action:
            break
        fields = {}
        for tag in re.findall(r"<input[^>]*>|<button[^>]*>", page):
            attributes = {name: html.unescape(value) for name, value in re.findall(r'(\w+)="([^"]*)"', tag)}
            if "name" in attributes and attributes["name"] not in fields:
                fields[attributes["name"]] = attributes.get("value", "")
        fields.update(answers)
        target = urllib.parse.urljoin(address, html.unescape(action[1]))
        reply = browser.open(target, urllib.parse.urlencode(fields).encode(), timeout=10)
    return re.sub(r"<[^>]+>", " ", reply.read().decode())


def run():
    provider = subprocess.Popen([*command, "dev-idp"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        issuer = provider.stdout.readline().strip()
        init = Terminal("init")
        init.until("Provider .*: ")
        init.type(issuer)
        init.until("Client ID .*: ")
        init.type("")
        init.until("Sign in now.*: ")
        init.type("y")
        url = init.until(r"\n(http://\S+/authorize\S+)\n")[1]
        init.until("paste that page's URL here")
        page = sign_in(url)
        if init.end() != 0 or "signed in" not in page.lower():
            sys.exit(f"first_minutes: the sign-in failed:\n{init.text}\n{page}")
        for arguments, status in ([("status",), 0], [("token",), 0], [("logout",), 0], [("token",), 4]):
            ended = Terminal(*arguments).end()
            if ended != status:
                sys.exit(f"first_minutes: {arguments} ended with {ended}:\n{shown[-1]}")
        return issuer
    finally:
        provider.terminate()
        provider.wait(60)


issuer = run()
text = "".join(shown).replace(issuer, "ISSUER")
for pattern, word in (
    (r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:PORT"), (r"http%3A%2F%2F127\.0\.0\.1%3A\d+", "http%3A%2F%2F127.0.0.1%3APORT"),
    (r"client-[\w-]{20,}", "CLIENT-ID"), (r"(state|nonce|code_challenge)=[\w-]{40,}", r"\1=..."),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"), (r"\S*/\.config/", "~/.config/"),
    (r"(?m)^User agent: .*$", "User agent: loopback"), (r"(?m)^[\w-]{32,}$", "ACCESS-TOKEN"),
):
    text = re.sub(pattern, word, text)
if writes:
    transcript.write_text(text)
elif text != transcript.read_text():
    import difflib
    sys.stdout.writelines(difflib.unified_diff(
        transcript.read_text().splitlines(True), text.splitlines(True), str(transcript), "actual output"))
    sys.exit("first_minutes: the output in the terminal differs from the transcript")
print(f"first_minutes: from authflow init to the sign-out in {time.monotonic() - start:.1f} s")
