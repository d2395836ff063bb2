#!/usr/bin/env python3
"""Plays a user with two browsers, real Chromiums: two_browsers.py ORIGIN PICTURES"""
import base64
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "Tests" / "Interop"))
from browser_login import Browser, sign_in_at_emulator  # noqa: E402

ORIGIN, PICTURES = sys.argv[1], pathlib.Path(sys.argv[2])
PICTURES.mkdir(exist_ok=True)


def expect(condition, what):
    if not condition:
        sys.exit(f"web-login: {what}")


class User:
    """What the user does in one browser."""

    def __init__(self, browser):
        self.browser = browser

    def open(self, path="/"):
        self.browser.command("POST", "/url", {"url": ORIGIN + path})

    def script(self, text):
        return self.browser.command("POST", "/execute/sync", {"script": text, "args": []})

    def text(self):
        return self.script("return document.body.innerText")

    def press(self, label):
        found = self.script(
            "const wanted = [...document.querySelectorAll('button, a.button, input[type=submit]')]"
            f".find(e => (e.innerText || e.value).trim() == '{label}'); if (wanted) wanted.click(); return !!wanted")
        expect(found, f"there is no button {label}: {self.text()}")

    def wait(self, words):
        self.browser.wait(lambda: words in self.text())

    def picture(self, name):
        data = self.browser.command("GET", "/screenshot")
        (PICTURES / f"web-login-{name}.png").write_bytes(base64.b64decode(data))

    def sign_in(self, is_known=False):
        self.press("Sign in")
        # The provider asks again for consent, and not for a password that it was told a moment ago.
        self.browser.click("button[name=decision][value=allow]") if is_known else sign_in_at_emulator(self.browser)
        self.wait("Signed in as Alice Example")


with Browser() as one, Browser() as two:
    laptop, phone = User(one), User(two)
    laptop.open()
    laptop.wait("No user is signed in")
    laptop.picture("signed-out")
    laptop.sign_in()
    expect(laptop.script("return document.cookie") == "", "a script of the page can read the cookie")
    phone.open()
    phone.sign_in()
    laptop.open()
    laptop.wait("another browser")
    laptop.picture("signed-in")
    expect("The access token is good until" in laptop.text(), laptop.text())
    laptop.press("End")
    laptop.browser.wait(lambda: "another browser" not in laptop.text())
    phone.open()
    phone.wait("No user is signed in")
    phone.sign_in(is_known=True)
    laptop.press("Sign out everywhere")
    laptop.wait("No user is signed in")
    laptop.picture("signed-out-everywhere")
    phone.open()
    phone.wait("No user is signed in")
