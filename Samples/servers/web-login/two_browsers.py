#!/usr/bin/env python3
"""Plays a user with two real Chromium browsers: two_browsers.py ORIGIN PICTURES [PROVIDER]

With PROVIDER, the user first chooses this provider on the application's page. Screenshots are 1280 and 390 pixels wide, light and dark.
"""
import base64
import itertools
import os
import pathlib
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "Tests" / "Interop"))
from browser_login import Browser, sign_in_at_emulator  # noqa: E402

ORIGIN, PICTURES, PROVIDER = sys.argv[1], pathlib.Path(sys.argv[2]), (sys.argv[3:] or [None])[0]
CALLBACK = f"/{PROVIDER.lower()}/callback" if PROVIDER else "/callback"
PICTURES.mkdir(exist_ok=True)
MIB = int(os.environ.get("WEB_LOGIN_MIB", "256"))
SIZE = MIB * 1024 * 1024
HOST = ORIGIN.partition("//")[2]


def expect(condition, what):
    if not condition:
        sys.exit(f"web-login: {what}")


class User:
    """The user's actions in one browser."""

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
            "const wanted = [...document.querySelectorAll('button, a, input[type=submit]')]"
            f".find(e => (e.innerText || e.value).trim() == '{label}'); if (wanted) wanted.click(); return !!wanted")
        expect(found, f"there is no button {label}: {self.text()}")

    def wait(self, words):
        try:
            self.browser.wait(lambda: words in self.text())
        except SystemExit:
            sys.exit(f"web-login: the page does not contain '{words}', but: {self.text()}")

    def cdp(self, command, **parameters):
        return self.browser.command("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def picture(self, name):
        for width in (1280, 390):
            self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 800)
            expect(self.script("return document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than {width} pixels")
            for scheme in ("light", "dark"):
                self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                data = self.browser.command("GET", "/screenshot")
                (PICTURES / f"web-login-{name}-{width}-{scheme}.png").write_bytes(base64.b64decode(data))
        self.cdp("Emulation.setEmulatedMedia", features=[])
        self.cdp("Emulation.clearDeviceMetricsOverride")

    def note(self, text):
        self.script(f"document.querySelector('input[name=note]').value = {text!r}")
        self.press("Add")
        self.wait(text)

    def streams(self):
        """Reads a stream of events and a large download from the API, and sends a large upload, through the application."""
        read = """const [path, done] = arguments; (async () => {
            const response = await fetch(path, {headers: {'X-AuthFlow': '1'}});
            const reader = response.body.getReader();
            let size = 0, parts = 0;
            for (let next; !(next = await reader.read()).done; parts++) size += next.value.length;
            return [response.status, response.headers.get('Content-Type'), size, parts];
        })().then(done, error => done(String(error)));"""
        result = self.browser.command("POST", "/execute/async", {"script": read, "args": ["/api/events"]})
        expect(result[:2] == [200, "text/event-stream"] and result[3:] == [3], f"the events did not arrive separately: {result}")
        before = self.memory("VmRSS")
        result = self.browser.command("POST", "/execute/async", {"script": read, "args": ["/api/large"]})
        expect(result[0] == 200 and result[2] == SIZE, f"a download of {MIB} MiB ended with {result}")
        grown = self.memory("VmHWM") - before
        # The limit is generous: a debug build of the HTTP server may queue unsent data.
        expect(grown < 100 * 1024, f"a download of {MIB} MiB took {grown} KiB of memory")
        before = self.memory("VmHWM")
        send = """const [size, done] = arguments;
            fetch('/api/photos', {method: 'PUT', headers: {'X-AuthFlow': '1'}, body: new Blob(Array(16).fill(new Uint8Array(size / 16)))})
                .then(async response => [response.status, await response.text()])
                .then(done, error => done(String(error)));"""
        result = self.browser.command("POST", "/execute/async", {"script": send, "args": [SIZE]})
        expect(result == [200, str(SIZE)], f"an upload of {MIB} MiB ended with {result}")
        sent = self.memory("VmHWM") - before
        expect(sent < 50 * 1024, f"an upload of {MIB} MiB took {sent} KiB of memory")
        print(f"Streamed {MIB} MiB through the application each way: {grown} and {sent} KiB more memory in the process")

    def sockets(self):
        """Opens a WebSocket of the wiki from a page of the application, and from a page of another origin."""
        read = """const [url, done] = arguments;
            const socket = new WebSocket(url);
            socket.onmessage = message => done(message.data);
            socket.onerror = () => done('refused');"""
        url = f"ws://{HOST}/wiki/live"
        result = self.browser.command("POST", "/execute/async", {"script": read, "args": [url]})
        expect(result == "changed by 248289761001", f"the WebSocket of the application's page: {result}")
        # The same host with a different port is a different origin but the same site, so its requests contain the cookies.
        self.browser.command("POST", "/url", {"url": os.environ["WEB_LOGIN_STRANGER"]})
        result = self.browser.command("POST", "/execute/async", {"script": read, "args": [url]})
        expect(result == "refused", f"the WebSocket of a page of another origin: {result}")
        self.open()
        # Any other protocol would be a tunnel in which the next request is not checked.
        reply = self.raw(HOST, f"GET /wiki/ HTTP/1.1\r\nHost: {HOST}\r\n{self.cookies()}Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n")
        expect(reply.startswith(b"HTTP/1.1 200"), f"an upgrade to h2c: {reply}")
        print("Opened a WebSocket behind the proxy: a page of another origin could not open one, and no other protocol was accepted")

    def cookies(self):
        """The Cookie header field of the browser."""
        cookies = self.browser.command("GET", "/cookie")
        return "Cookie: " + "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in cookies) + "\r\n"

    @staticmethod
    def raw(address, request):
        """The beginning of the response to a request."""
        name, _, port = address.partition(":")
        with socket.create_connection((name, int(port)), timeout=20) as connection:
            connection.sendall(request.encode())
            return connection.recv(4096)

    def broken_uploads(self):
        """Aborted uploads must not look complete to the API, whichever way they are aborted."""
        head = f"PUT /api/photos HTTP/1.1\r\nHost: {HOST}\r\n{self.cookies()}X-AuthFlow: 1\r\nOrigin: {ORIGIN}\r\n"
        chunked = "Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
        rests = [chunked, chunked + "5\r\nse", "Content-Length: 10\r\n\r\nfirst"]
        # Directly, and through the reverse proxy.
        for address in [os.environ["WEB_LOGIN_ADDRESS"], HOST]:
            for rest, is_reset in itertools.product(rests, [False, True]):
                count = len(self.uploads()) + 1
                name, _, port = address.partition(":")
                with socket.create_connection((name, int(port))) as connection:
                    connection.sendall((head + rest).encode())
                    self.wait_for_uploads(lambda uploads: len(uploads) == count)
                    if is_reset:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.wait_for_uploads(lambda uploads: None not in uploads)
        expect(not any(self.uploads()[1:]), f"an aborted upload looked complete: {self.uploads()}")
        print("Aborted twelve uploads: none looked complete to the API")

    def wait_for_uploads(self, condition):
        deadline = time.monotonic() + 20
        while not condition(self.uploads()):
            expect(time.monotonic() < deadline, f"the API's uploads after 20 s: {self.uploads()}")
            time.sleep(0.02)

    def uploads(self):
        """Whether each upload was complete; None while it is in progress."""
        read = "fetch('/api/uploads', {headers: {'X-AuthFlow': '1'}}).then(response => response.json()).then(arguments[0]);"
        return self.browser.command("POST", "/execute/async", {"script": read, "args": []})

    @staticmethod
    def memory(field):
        with open(f"/proc/{os.environ['WEB_LOGIN_PROCESS']}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(field))

    def sign_in(self, is_known=False):
        self.press("Sign in")
        if PROVIDER:
            self.wait("Choose where you want to sign in")
            self.picture("providers")
            self.press(PROVIDER)
        # The provider prompts for consent again, but not for the password, which the user has just entered.
        self.browser.click("button[name=decision][value=allow]") if is_known else sign_in_at_emulator(self.browser)
        self.wait("Signed in as Alice Example")


with Browser() as one, Browser() as two:
    laptop, phone = User(one), User(two)
    laptop.open()
    laptop.wait("No user is signed in")
    laptop.picture("signed-out")
    laptop.sign_in()
    laptop.browser.command("POST", "/timeouts", {"script": 120_000})
    if not PROVIDER:
        laptop.open("/wiki/")
        laptop.wait("The wiki of 248289761001, with 0 cookies.")
        laptop.open()
        laptop.streams()
        laptop.broken_uploads()
        laptop.sockets()
        # Without a session, the proxy redirects the browser to the sign-in, which returns to the page.
        phone.open("/wiki/My%20Page?x=1&y=2")
        sign_in_at_emulator(phone.browser)
        phone.wait("The wiki of 248289761001, with 0 cookies.")
        expect(phone.script("return location.href").endswith("/wiki/My%20Page?x=1&y=2"), phone.script("return location.href"))
        phone.open()
        phone.press("Sign out")
        phone.wait("No user is signed in")
        laptop.open()
    expect(laptop.script("return document.cookie") == "", "a script of the page can read the cookie")
    phone.open()
    phone.sign_in()
    laptop.open()
    laptop.wait("another browser")
    laptop.note("<b>tea</b> & \u00fcmlauts")
    laptop.picture("signed-in")
    # A silent sign-in: the user has a session at the provider, so no page is shown, and this browser still has only one session.
    old = laptop.browser.command("GET", "/cookie")
    laptop.open("/silent")
    laptop.wait("<b>tea</b> & \u00fcmlauts")
    expect(laptop.script("return location.search") == "", f"a silent sign-in ended at {laptop.script('return location.href')}")
    expect(laptop.browser.command("GET", "/cookie") != old, "a silent sign-in has not replaced the session")
    expect(laptop.text().count("this browser") == 1 and laptop.text().count("another browser") == 1, laptop.text())
    # Step-up: the provider prompts again, the note is preserved, and this browser still has only one session.
    laptop.press("Payments")
    laptop.browser.click("button[name=decision][value=allow]")
    laptop.wait("Payments, signed in with mfa")
    laptop.open("/payments")
    laptop.wait("Payments, signed in with mfa")
    laptop.open()
    laptop.wait("<b>tea</b> & \u00fcmlauts")
    expect(laptop.text().count("this browser") == 1 and laptop.text().count("another browser") == 1, laptop.text())
    # A request from a link on another site does not contain the SameSite=Strict cookie; the sign-in route finds the session again.
    laptop.browser.command("POST", "/url", {"url": f"data:text/html,<a href='{ORIGIN}/login?return_to=/'>link</a>"})
    laptop.press("link")
    laptop.wait("Signed in as Alice Example")
    expect(laptop.text().count("this browser") == 1 and laptop.text().count("another browser") == 1, laptop.text())
    expect("The access token is valid until" in laptop.text(), laptop.text())
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
    phone.open(f"{CALLBACK}?state=x&code=y")
    phone.wait("This sign-in took too long")
    phone.picture("stale")
    if "WEB_LOGIN_COOKIE" in os.environ:
        # For a request that continues while the processes are replaced.
        phone.open()
        phone.sign_in(is_known=True)
        cookies = phone.browser.command("GET", "/cookie")
        pathlib.Path(os.environ["WEB_LOGIN_COOKIE"]).write_text("; ".join(f"{c['name']}={c['value']}" for c in cookies))
