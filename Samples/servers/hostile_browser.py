#!/usr/bin/env python3
"""Plays hostile browsers and pages against an application behind a SessionServer, over sockets: hostile_browser.py ORIGIN [--cookie]

With --cookie, it only signs in and prints the session cookie.
The application must have the standard routes, and its page "/" must contain "Signed in as Alice Example" if the browser has a session.
"""
import html
import http.client
import pathlib
import re
import socket
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "custom-user-agent"))
import importlib  # noqa: E402

sign_in = importlib.import_module("sign-in").sign_in

ORIGIN = sys.argv[1]
HOST = urllib.parse.urlsplit(ORIGIN)
EVIL = "https://evil.example"


class Reply:
    def __init__(self, response):
        self.status, self.body = response.status, response.read().decode(errors="replace")
        self.cookies = [value for name, value in response.getheaders() if name.lower() == "set-cookie"]
        self.location = response.getheader("Location") or ""
        self.cache = response.getheader("Cache-Control") or ""


def ask(path, cookies=None, method="GET", body=None, **fields):
    connection = http.client.HTTPConnection(HOST.hostname, HOST.port, timeout=20)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    if cookies:
        headers["Cookie"] = cookies if isinstance(cookies, str) else "; ".join(f"{n}={v}" for n, v in cookies.items())
    connection.request(method, path, body, headers)
    return Reply(connection.getresponse())


def keep(cookies, reply):
    for cookie in reply.cookies:
        name, value = cookie.split(";")[0].split("=", 1)
        cookies.pop(name, None)
        if value:
            cookies[name] = value


def begin(cookies, path="/login?return_to=/"):
    reply = ask(path, cookies)
    keep(cookies, reply)
    return sign_in(reply.location)  # the URL of the callback, not yet requested


def path_of(url):
    parts = urllib.parse.urlsplit(url)
    return f"{parts.path}?{parts.query}"


def finish(cookies, callback):
    reply = ask(path_of(callback), cookies, Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document")
    keep(cookies, reply)
    return reply


def signed_in(cookies):
    return "Signed in as Alice Example" in re.sub("<[^>]*>", "", ask("/", cookies).body)


def session_of(cookies):
    return {name: value for name, value in cookies.items() if name == "authflow"}


scenes = []


def scene(function):
    scenes.append(function)
    return function


def expect(is_so, shown=""):
    if not is_so:
        raise AssertionError(shown)


@scene
def the_cookie_is_for_this_application_and_no_script(alice, last):
    cookie = next(c for c in last.cookies if c.split("=")[1].split(";")[0] in session_of(alice).values())
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    expect({"httponly", "samesite=strict", "path=/"} <= parts and not any(p.startswith("domain") for p in parts), cookie)


@scene
def a_page_of_another_site_learns_nothing_and_changes_nothing(alice, _):
    # Simulates a browser that sends the cookie in spite of SameSite=Strict.
    evil = {"Origin": EVIL, "Sec_Fetch_Site": "cross-site"}
    expect(ask("/session", alice).status in (401, 403), "without the header field")
    expect(ask("/session", alice, X_AuthFlow="1", **evil).status in (401, 403), "with the header field")
    expect(ask("/session", alice, X_AuthFlow="1").status == 200)
    for method in ("GET", "PUT", "DELETE"):
        expect(ask("/logout", alice, method).status == 405, method)
    for fields in (evil, {"Origin": "null"}, {"Origin": EVIL}, {}):
        expect(ask("/logout", alice, "POST", "everywhere=1", **fields).status == 403, f"{fields}")
    expect(signed_in(alice), "signed out by another site")


@scene
def a_login_in_an_image_or_a_frame_begins_nothing(_, __):
    for destination in ("image", "iframe", "script", "empty"):
        reply = ask("/login?return_to=/", Sec_Fetch_Dest=destination)
        expect(reply.status >= 400 and not reply.cookies, f"{destination}: {reply.status}")


@scene
def the_response_for_another_browser_signs_no_user_in(alice, _):
    callback = begin({})
    victim = {}
    expect(not signed_in(victim))
    expect(finish(victim, callback).status >= 400 and not signed_in(victim), "signed in with another browser's response")
    before = dict(alice)
    finish(alice, callback)
    expect(session_of(alice) == session_of(before) and signed_in(alice), "the session of another user was replaced")


@scene
def a_response_is_taken_once(_, __):
    cookies = {}
    callback = begin(cookies)
    before = dict(cookies)
    finish(cookies, callback)
    expect(signed_in(cookies))
    expect(not signed_in({**before}) and finish(before, callback).status >= 400 and not signed_in(before), "taken twice")


@scene
def an_identifier_that_was_planted_has_no_session(alice, _):
    name = next(iter(session_of(alice)))
    planted = "A" * 42 + "E"
    cookies = {name: planted}
    finish(cookies, begin(cookies))
    expect(signed_in(cookies) and cookies[name] != planted and not signed_in({name: planted}), "fixed")


@scene
def two_cookies_of_one_name_are_no_session(alice, _):
    name, value = next(iter(session_of(alice).items()))
    for cookies in (f"{name}={value}; {name}={'A' * 43}", f"{name}={'A' * 43}; {name}={value}"):
        expect(not signed_in(cookies), cookies[:20])


@scene
def no_address_leads_to_another_site(_, __):
    pages = ["https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "/%2f/evil.example", "/\t/evil.example",
             "javascript:alert(1)", "http:evil.example", "/%5cevil.example", "/..//evil.example", "/%0d%0aLocation:%20https://evil.example"]
    def returns_to(page):
        cookies = {}
        reply = ask(f"/login?return_to={urllib.parse.quote(page, safe='')}", cookies)
        if reply.status == 400:
            return None
        expect(reply.status == 303, f"{page}: {reply.status}")
        keep(cookies, reply)
        end = finish(cookies, sign_in(reply.location))
        expect(end.status in (200, 303) and signed_in(cookies), f"{page}: {end.status}")
        return end

    good = returns_to("/a?b=1")
    expect("/a?b=1" in html.unescape(good.body + good.location), "the sign-in does not return to a page of the application")
    for page in pages:
        end = returns_to(page)
        if end is None:
            continue
        # Browsers treat a backslash as a slash, and remove tabs and newlines.
        leads = [end.location or "/"] + [html.unescape(to) for to in re.findall(r"(?:url=|href=\")([^\"]*)", end.body)]
        for lead in (re.sub(r"[\t\r\n]", "", lead).replace("\\", "/") for lead in leads):
            target = urllib.parse.urlsplit(urllib.parse.urljoin(ORIGIN, lead))
            expect(f"{target.scheme}://{target.netloc}" == ORIGIN, f"{page}: {lead}")


@scene
def bodies_are_bounded(alice, _):
    for size in (65 * 1024, 4 * 1024 * 1024):
        try:
            reply = ask("/logout", alice, "POST", "x" * size, Origin=ORIGIN)
            expect(reply.status == 413, f"{size} bytes: {reply.status}")
        except ConnectionError:
            pass  # closed while the body was being sent, which is also a rejection
    expect(signed_in(alice))


@scene
def strange_requests_harm_no_other(alice, _):
    refused, any_page = rb"HTTP/1.[01] [45]\d\d", rb"HTTP/1.1 [24]\d\d"
    host = HOST.netloc.encode()
    for text, wanted in (
        (b"GET /session%00 HTTP/1.1\r\nHost: x\r\n\r\n", any_page), (b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n", any_page),
        (b"POST /logout HTTP/1.1\r\nHo", refused), (b"\x16\x03\x01\x02\x00", refused), (b"GET / HTTP/9.9\r\n\r\n", refused),
        (b"GET http://evil.example/callback?code=1&state=2 HTTP/1.1\r\nHost: evil.example\r\n\r\n", refused),
        (b"POST /logout HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /", refused),
    ):
        with socket.create_connection((HOST.hostname, HOST.port), 10) as connection:
            connection.sendall(text.replace(b"Host: x", b"Host: " + host))
            connection.shutdown(socket.SHUT_WR)
            try:
                reply = connection.recv(65536)
            except ConnectionError:
                reply = b""
            # A closed connection also counts as a rejection.
            expect(not reply or re.match(wanted, reply) and b"Set-Cookie: authflow=" not in reply, (text, reply[:80]))
            expect(signed_in(alice), text)
    waiting = [socket.create_connection((HOST.hostname, HOST.port), 10) for _ in range(100)]
    for connection in waiting:
        connection.sendall(f"POST /logout HTTP/1.1\r\nHost: {HOST.netloc}\r\nContent-Length: 100\r\n\r\nx".encode())
    expect(signed_in(alice), "slow clients block other clients")
    for connection in waiting:
        connection.close()


@scene
def a_head_response_has_no_content(_, __):
    # The client, such as a reverse proxy, would parse the content as the next response.
    replies = b""
    with socket.create_connection((HOST.hostname, HOST.port), 10) as connection:
        for number in (1, 2):
            connection.sendall(f"HEAD / HTTP/1.1\r\nHost: {HOST.netloc}\r\n\r\n".encode())
            while replies.count(b"\r\n\r\n") < number:
                part = connection.recv(65536)
                expect(part, "the connection was closed")
                replies += part
    expect(re.fullmatch(rb"(HTTP/1\.1 \d{3} ((?!\r\n\r\n).)*\r\n\r\n){2}", replies, re.DOTALL), replies[-200:])


@scene
def cookies_of_sign_ins_do_not_pile_up(_, __):
    cookies = {}
    for number in range(12):
        reply = ask(f"/login?return_to=/{number}", cookies)
        expect(reply.status == 303, f"{reply.status}")
        keep(cookies, reply)
    expect(1 <= len(cookies) <= 5, f"{len(cookies)} cookies")


@scene
def what_is_personal_is_kept_by_no_cache(alice, last):
    for reply in (last, ask("/session", alice, X_AuthFlow="1"), ask("/login?return_to=/")):
        expect("no-store" in reply.cache, reply.cache)


@scene
def a_session_that_was_signed_out_is_over(_, __):
    cookies = {}
    finish(cookies, begin(cookies))
    old = dict(cookies)
    reply = ask("/logout", cookies, "POST", "", Origin=ORIGIN, Sec_Fetch_Site="same-origin")
    keep(cookies, reply)
    expect(reply.status == 303 and not session_of(cookies), f"{reply.status}")
    expect(not signed_in(old) and ask("/session", old, X_AuthFlow="1").status == 401, "the session ID is still valid")


def main():
    alice = {}
    last = finish(alice, begin(alice))
    if not signed_in(alice):
        sys.exit(f"hostile browser: no user is signed in: {last.status} {last.body[:200]}")
    if sys.argv[2:] == ["--cookie"]:
        return print("; ".join(f"{name}={value}" for name, value in session_of(alice).items()))
    for each in scenes:
        try:
            each(alice, last)
        except AssertionError as error:
            sys.exit(f"hostile browser: failed: {each.__name__.replace('_', ' ')} ({error})")
    print(f"Hostile browsers: {len(scenes)} scenes at {ORIGIN}")


main()
