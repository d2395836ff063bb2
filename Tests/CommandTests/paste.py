#!/usr/bin/env python3
"""Plays the person at a terminal whose browser is on another machine:

    paste.py PROGRAM ARGUMENTS

runs a login at a terminal of its own, carries the address that it prints to a browser which reaches the provider and not
this machine's other ports, pastes a wrong address, and then the one that the browser ended at. Prints what the terminal
showed, and exits as the program did.
"""
import html, http.cookiejar, os, pty, re, sys, urllib.error, urllib.parse, urllib.request


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def sign_in(url):
    """Goes through the bundled provider's pages and returns the address that they end at, which is not requested."""
    issuer = urllib.parse.urlsplit(url).netloc
    browser = urllib.request.build_opener(NoRedirects, urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    data = None
    for _ in range(10):
        try:
            with browser.open(url, data, timeout=30) as reply:
                page, location = reply.read().decode(), None
        except urllib.error.HTTPError as reply:
            page, location = "", reply.headers["Location"]
        if location:
            url, data = urllib.parse.urljoin(url, location), None
            if urllib.parse.urlsplit(url).netloc != issuer:
                return url
            continue
        form = {name: html.unescape(value) for name, value in re.findall(r'name="([^"]+)"[^>]*value="([^"]*)"', page)}
        form |= {"username": "alice", "password": "wonderland"} if 'name="password"' in page else {"decision": "allow"}
        action = re.search(r'action="([^"]*)"', page)
        url = urllib.parse.urljoin(url, html.unescape(action.group(1)) if action else "")
        data = urllib.parse.urlencode(form).encode()
    raise SystemExit("paste: the provider's pages led nowhere")


process, terminal = pty.fork()
if process == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said, pasted = "", False
while True:
    try:
        data = os.read(terminal, 1024)
    except OSError:  # The program has gone, and its terminal with it.
        break
    if not data:
        break
    text = data.decode(errors="replace").replace("\r", "")
    sys.stdout.write(text)
    sys.stdout.flush()
    said += text
    address = re.search(r"^(https?://\S+)\n", said, re.MULTILINE)
    if not pasted and address and "paste that page's address here" in said:
        answer = sign_in(address.group(1))
        os.write(terminal, (re.sub(r"state=[^&]*", "state=wrong", answer) + "\n").encode())
        os.write(terminal, f"  '{answer}' \n".encode())
        pasted = True
sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
