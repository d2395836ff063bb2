#!/usr/bin/env python3
"""Lists the files that a login, a refresh and a server's callback pass through, in docs/architecture.md.

    trace.py FLOW_TRACE AUTHFLOW DOCUMENT

FLOW_TRACE is built with a call at the start of every function. Functions that resume after a suspension, and accessors,
are not counted as calls. A return is a call into a file that the flow has already left. The user agent, the foundation
(HTTP, JSON, transport) and compiler-generated code are not counted.
"""

import os, pathlib, re, subprocess, sys, tempfile

program, tool, document = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2]), pathlib.Path(sys.argv[3])
here = pathlib.Path(__file__).parent
COUNTED = re.compile(r"/(?:Sources/(?:Protocol|Credentials|Server)/\w+|Sources/SignIn/(?:AuthFlowSignIn|AuthFlow)|Sources/Foundation/(?:AuthFlowJOSE|AuthFlowStorage)|Providers)/(.*\.swift)$")
TITLES = {"login": "One login (`AuthClient`, `AuthorizationServer(issuer:)`, `LoopbackUserAgent`, `FileTokenStore`)", "refresh": "One refresh of the same client",
          "callback": "One `/callback` of a web application (`SessionServer`, `MemoryTokenStore`)"}


def symbols(addresses):
    """The function and the file of each address."""
    found = subprocess.run(["llvm-symbolizer", "--obj=" + program, "--no-inlines", "--no-demangle", "--output-style=GNU"],
                           input="\n".join(addresses), capture_output=True, text=True, check=True).stdout.splitlines()
    return {address: (found[2 * at], found[2 * at + 1].rsplit(":", 1)[0]) for at, address in enumerate(addresses)}


with tempfile.TemporaryDirectory() as folder:
    provider = subprocess.Popen([tool, "dev-idp", "--web-client", "https://app.example.com"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        issuer = provider.stdout.readline().strip()
        environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0", SWIFT_BACKTRACE="enable=no")
        subprocess.run([program, issuer, str(here / "browser.py"), folder], check=True, env=environment, timeout=120)
    finally:
        provider.terminate()
        provider.wait()
    lines = []
    for flow, title in TITLES.items():
        calls = pathlib.Path(folder, flow).read_text().split()
        known = symbols(sorted(set(calls)))
        files, current, returns = [], None, 0
        for call in calls:
            name, path = known[call]
            match = COUNTED.search(path)
            # $s...TY0_ and $s...TQ1_ resume a function after a suspension, v... are accessors, and fA0_ default
            # arguments; == and hash(into:) compare and hash values, and WZ initializes global constants.
            if not match or re.search(r"T[YQ]\d*_$|v[a-zA-Z]+$|v[a-z]+Z$|fA\d*_$|WZ$|v\w*Tu$|2eeoi|hash4into", name): continue
            file = match.group(1)
            if file == current: continue
            if file in files: returns += 1
            else: files.append(file)
            current = file
        if not files: sys.exit(f"{program} has no debug information")
        lines += [f"**{title}**: {len(files)} files, {returns} returns.", "", ", ".join(f"`{file}`" for file in files), ""]
        print(f"{flow}: {len(files)} files, {returns} returns")

text = document.read_text()
start, end = "<!-- flows: written by make trace-flows -->\n", "<!-- end of flows -->"
document.write_text(text[:text.index(start) + len(start)] + "\n".join(lines) + text[text.index(end):])
