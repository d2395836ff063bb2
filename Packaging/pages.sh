#!/usr/bin/env bash
# Copies the screenshots of the pages that users see from .build-browser, where the tests with a real browser put them, into the manual.
set -euo pipefail
cd "$(dirname "$0")/.."
pages=Sources/SignIn/AuthFlow/AuthFlow.docc/Resources
mkdir -p "$pages"
copy() { # name in the manual, name of the screenshot
  cp ".build-browser/$2-light.png" "$pages/page-$1.png"
  # DocC shows the variant ~dark to readers in dark mode.
  cp ".build-browser/$2-dark.png" "$pages/page-$1~dark.png"
}
copy signed-in desktop-signed-in
copy denied desktop-denied
copy providers web-login-providers-390
copy stale web-login-stale-390
copy application web-login-signed-in-390
