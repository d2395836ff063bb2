#!/usr/bin/env python3
"""A browser for the bundled provider: signs in as alice, and follows the redirects. Usage: browser.py URL"""

import html, http.cookiejar, re, sys, urllib.parse, urllib.request



class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and prints the URL of the redirect to the web application."""

    def redirect_request(self, request, response, status, message, headers, url):
        if url.startswith("https:"):
            print(url, end="")
            sys.exit()
        return super().redirect_request(request, response, status, message, headers, url)


open_url = urllib.request.build_opener(Redirects, urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())).open
with open_url(sys.argv[1]) as page:
    for _ in range(3):
        text, address = page.read().decode(), page.geturl()
        form = re.search(r"<form[^>]*>(.*?)</form>", text, re.S)
        if not form: break
        action = re.search(r'action="([^"]*)"', form.group(0))
        fields = dict(re.findall(r'<input[^>]*name="([^"]*)"[^>]*value="([^"]*)"', form.group(1)))
        fields = {name: html.unescape(value) for name, value in fields.items()}
        fields.update(username="alice", password="wonderland", decision="allow")
        target = urllib.parse.urljoin(address, html.unescape(action.group(1)) if action else "")
        page = open_url(target, urllib.parse.urlencode(fields).encode())
