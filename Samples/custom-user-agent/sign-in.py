#!/usr/bin/env python3
"""Takes the place of a browser for the sample user agent: reads a URL from standard input, completes the bundled
provider's pages as alice, and prints the URL of the final redirect without requesting it.
"""
import html, http.cookiejar, re, sys, urllib.error, urllib.parse, urllib.request


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def sign_in(url):
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
            if urllib.parse.urlsplit(url).path.startswith("/callback"):
                return url
            continue
        form = {name: html.unescape(value) for name, value in re.findall(r'name="([^"]+)"[^>]*value="([^"]*)"', page)}
        form |= {"username": "alice", "password": "wonderland"} if 'name="password"' in page else {"decision": "allow"}
        action = re.search(r'action="([^"]*)"', page)
        url = urllib.parse.urljoin(url, html.unescape(action.group(1)) if action else "")
        data = urllib.parse.urlencode(form).encode()
    raise SystemExit("sign-in: the provider's pages did not lead to the redirect URI")


if __name__ == "__main__":
    print(sign_in(sys.stdin.readline().strip()))
