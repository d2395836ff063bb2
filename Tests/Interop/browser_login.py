#!/usr/bin/env python3
"""Acts as the user of a real Chromium browser, through WebDriver, with only the standard library.

Usage: browser_login.py URL      (the URL of the sign-in page, as opened by a user agent)

Environment:
  BROWSER_LOGIN_PROVIDER    the pages to expect: emulator (default), glewlwyd or forgerock; unattended, if no page may prompt;
                            or fragment: an error response in a fragment whose parameters are named after a form's methods
  BROWSER_LOGIN_PROFILE     a directory for the browser's profile, to reuse the same browser; default: a new directory
  BROWSER_LOGIN_DECISION    allow (default) or deny: the choice on the emulator's consent page
  BROWSER_LOGIN_SCREENSHOT  where to save screenshots of the last page: NAME for NAME-light.png and NAME-dark.png
  BROWSER_LOGIN_TEXT        where to save the text of the last page
  BROWSER_LOGIN_SCHEME      the private-use scheme that the provider's pages may open, as if "always allow" had been selected;
                            then there is no last page, and the browser runs until the file BROWSER_LOGIN_END exists
  BROWSER_LOGIN_END         the path of that file
  BROWSER_LOGIN_WINDOW      yes to show a window, on the screen that DISPLAY names
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from ports import free_port

PATIENCE = 60  # seconds


class Browser:
    """A Chromium that is always closed."""

    def __enter__(self):
        port = free_port()
        self.home = tempfile.TemporaryDirectory()
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.home.name})
        self.base = f"http://127.0.0.1:{port}"
        self.session = None
        self.wait(lambda: self.call("GET", "/status")["ready"])
        mode = [] if os.environ.get("BROWSER_LOGIN_WINDOW") == "yes" else ["--headless=new"]
        options = {"args": mode + ["--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
                            "--window-size=900,600", "--user-data-dir=" + os.environ.get("BROWSER_LOGIN_PROFILE", self.home.name + "/profile")]}
        if "BROWSER_LOGIN_SCHEME" in os.environ:
            origin = "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(sys.argv[1]))
            options["prefs"] = {"protocol_handler.allowed_origin_protocol_pairs":
                                {origin: {os.environ["BROWSER_LOGIN_SCHEME"]: True}}}
        capabilities = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self.session = self.call("POST", "/session", capabilities)["sessionId"]
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self.call("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            try:
                self.driver.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.driver.kill()
                self.driver.wait()
            self.home.cleanup()

    def call(self, method, path, body=None):
        data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return json.load(reply)["value"]

    def command(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def wait(self, condition):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                value = condition()
                if value:
                    return value
            except (urllib.error.URLError, ConnectionError):
                pass
            if time.monotonic() > end:
                raise SystemExit("browser_login: the expected page did not appear")
            time.sleep(0.1)

    def act(self, selector, action, body=None):
        """Acts on an element as soon as it exists and is interactable."""
        def attempt():
            found = self.command("POST", "/element", {"using": "css selector", "value": selector})
            self.command("POST", f"/element/{next(iter(found.values()))}/{action}", body)
            return True
        self.wait(attempt)

    def type(self, selector, text):
        self.act(selector, "value", {"text": text})

    def click(self, selector):
        self.act(selector, "click")

    def check(self, *selectors):
        """Selects checkboxes, and selects them again if the page was re-rendered and has reset them, until they stay selected."""
        selected = 0

        def attempt():
            nonlocal selected
            clicked = False
            for selector in selectors:
                found = self.command("POST", "/element", {"using": "css selector", "value": selector})
                element = next(iter(found.values()))
                if not self.command("GET", f"/element/{element}/selected"):
                    self.command("POST", f"/element/{element}/click")
                    clicked = True
            selected = 0 if clicked else selected + 1
            return selected == 5
        self.wait(attempt)

    def url(self):
        return self.command("GET", "/url")


def sign_in_at_emulator(browser):
    browser.type("input[name=username]", "alice")
    browser.type("input[name=password]", "wonderland")
    browser.click("button[type=submit]")
    decision = os.environ.get("BROWSER_LOGIN_DECISION", "allow")
    browser.click(f"button[name=decision][value={decision}]")


def sign_in_at_glewlwyd(browser):
    browser.type("#username", "alice")
    browser.type("#password", "wonderland")
    browser.click("#loginbut")
    # Glewlwyd's page prompts for the scopes to grant, and then for confirmation.
    browser.check("#grant-profile", "#grant-email")
    browser.click("button.btn-primary")
    browser.click("button.btn-success")


def sign_in_at_forgerock(browser):
    browser.type("input[name=IDToken1]", "alice")
    browser.type("input[name=IDToken2]", "wonderland")
    browser.click("button")


def refusal_in_a_fragment(url):
    """The URL to which a provider redirects with an error. The request is in the redirect of the client's start page."""
    class Stays(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None

    try:
        urllib.request.build_opener(Stays).open(url, timeout=PATIENCE)
        raise SystemExit("browser_login: the start page does not redirect")
    except urllib.error.HTTPError as reply:
        request = urllib.parse.urlsplit(reply.headers["Location"])
    asked = dict(urllib.parse.parse_qsl(request.query))
    answer = {"error": "access_denied", "state": asked["state"], "iss": "{0.scheme}://{0.netloc}".format(request)}
    for name in ("submit", "appendChild", "append", "method", "action", "elements", "__proto__"):
        answer[name] = "x"
    return asked["redirect_uri"] + "#" + urllib.parse.urlencode(answer)


def main():
    url = sys.argv[1]
    if os.environ.get("BROWSER_LOGIN_PROVIDER") == "fragment":
        url = refusal_in_a_fragment(url)
    with Browser() as browser:
        browser.command("POST", "/url", {"url": url})
        sign_in = {"glewlwyd": sign_in_at_glewlwyd, "forgerock": sign_in_at_forgerock, "unattended": lambda browser: None, "fragment": lambda browser: None}
        sign_in.get(os.environ.get("BROWSER_LOGIN_PROVIDER"), sign_in_at_emulator)(browser)
        if "BROWSER_LOGIN_SCHEME" in os.environ:
            return browser.wait(lambda: os.path.exists(os.environ["BROWSER_LOGIN_END"]))
        browser.wait(lambda: "/callback" in browser.url())
        text = browser.command("POST", "/execute/sync", {
            "script": "return document.body.innerText", "args": []})
        if "BROWSER_LOGIN_SCREENSHOT" in os.environ:
            for scheme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                browser.command("POST", "/goog/cdp/execute", {
                    "cmd": "Emulation.setEmulatedMedia", "params": {"features": features}})
                with open(f"{os.environ['BROWSER_LOGIN_SCREENSHOT']}-{scheme}.png", "wb") as file:
                    file.write(base64.b64decode(browser.command("GET", "/screenshot")))
        # This is last, because the caller waits for the file and may then stop everything.
        if "BROWSER_LOGIN_TEXT" in os.environ:
            with open(os.environ["BROWSER_LOGIN_TEXT"], "w") as file:
                file.write(text)


if __name__ == "__main__":
    main()
