#!/usr/bin/env python3
"""Times builds, each of a program in a separate directory: build_costs.py [debug] [release] [PROGRAM ...]    default: debug, all programs

Clean: builds everything, from packages that have already been fetched. Change: adds a function to a file of AuthFlowOAuth and rebuilds the program
(only the app and the tool). Writes the table into docs/performance.md. The debug builds take about 20 minutes on two cores; do not run
anything else meanwhile.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = {
    "floor": "third-party packages only", "verifier": "AuthFlowIssuer: verifies ID Tokens", "api": "AuthFlowResourceServer",
    "app": "AuthFlowOIDC and AuthFlowLoopback", "server": "AuthFlowOIDC, AuthFlowServer and AuthFlowPostgreSQL",
    "jwt-kit-verifier": "jwt-kit", "async-http-client-get": "async-http-client",
}


def build(tree, folder, product, configuration, package):
    began = time.monotonic()
    result = subprocess.run(
        ["swift", "build", "--package-path", tree / package, "--scratch-path", folder, "--product", product, "--configuration", configuration],
        capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"build_costs: {product} does not build:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return time.monotonic() - began


def modules(folder, configuration):
    found = next(folder.glob(f"*-linux-gnu/{configuration}"), folder)
    swift = len(list((found / "Modules").glob("*.swiftmodule")))
    return swift, sum(1 for _ in found.glob("**/*.o"))


def change(tree, number):
    path = tree / "Sources/Protocol/AuthFlowOAuth/Client/OAuthClient.swift"
    path.write_text(path.read_text() + f"\nfunc buildCostMark{number}() -> Int {{ {number} }}\n")


def measure(configuration):
    rows = []
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        tree = work / "tree"
        subprocess.run(["git", "clone", "--quiet", ROOT, tree], check=True)
        jobs = [(name, "Benchmarks/Build", text) for name, text in PROGRAMS.items()] + [("authflow", ".", "the tool")]
        jobs = [job for job in jobs if not CHOSEN or job[0] in CHOSEN or job[0] == "floor"]
        for number, (product, package, text) in enumerate(jobs):
            folder = work / f"build-{product}"
            # The packages are fetched first, because the time for fetching depends on the network.
            subprocess.run(["swift", "package", "--package-path", tree / package, "--scratch-path", folder, "resolve"], check=True, capture_output=True)
            clean = build(tree, folder, product, configuration, package)
            swift, objects = modules(folder, configuration)
            again = None
            if product in ("app", "authflow"):
                change(tree, number)
                again = build(tree, folder, product, configuration, package)
            rows.append((product, text, clean, swift, objects, again))
            print(f"{configuration} {product}: {clean:.0f} s, {swift} Swift modules, {objects} objects" +
                  (f", after a change {again:.0f} s" if again else ""), flush=True)
            shutil.rmtree(folder)
    return rows


def table(configuration, rows):
    floor = next(clean for product, _, clean, *_ in rows if product == "floor")
    lines = [f"| program ({configuration}) | with | clean | excluding third-party packages | Swift modules | objects | after a change |", "|---|---|---|---|---|---|---|"]
    for product, text, clean, swift, objects, again in rows:
        own = f"{max(0, clean - floor):.0f} s" if product in ("verifier", "api", "app") else ""
        lines.append(f"| `{product}` | {text} | {clean:.0f} s | {own} | {swift} | {objects} | {f'{again:.0f} s' if again else ''} |")
    return "\n".join(lines)


CHOSEN = [each for each in sys.argv[1:] if each not in ("debug", "release")]
tables = "\n\n".join(table(each, measure(each)) for each in ([each for each in sys.argv[1:] if each not in CHOSEN] or ["debug"]))
path = ROOT / "docs" / "performance.md"
text = path.read_text()
begin, end = "<!-- build costs -->\n", "<!-- end of build costs -->"
if begin not in text:
    sys.exit("build_costs: docs/performance.md has no marker for the table")
path.write_text(re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: f"{begin}{tables}\n{end}", text, flags=re.S))
