#!/usr/bin/env bash
# Opens private windows of Firefox and Chromium on a separate screen, and waits until each has requested the provider's page:
#
#   Tests/Interop/private_windows.sh PATH/TO/authflow
set -euo pipefail
authflow=$(realpath "$1")
work=$(mktemp -d)
started=
cleanup() {
  for process in $started; do { kill "$process" && wait "$process"; } 2>/dev/null || true; done
  rm -rf "$work" 2>/dev/null || { sleep 1; rm -rf "$work"; }
}
trap cleanup EXIT
Xvfb -displayfd 3 -screen 0 1000x700x24 -nolisten tcp 3>"$work/display" 2>/dev/null &
started="$started $!"
"$authflow" dev-idp >"$work/issuer" 2>>"$work/provider" &
started="$started $!"
for _ in $(seq 100); do [ -s "$work/issuer" ] && [ -s "$work/display" ] && break; sleep 0.1; done
mkdir -m 700 "$work/home" "$work/run"

visit() { # what BROWSER names, the option that is expected
  local before login windows=
  before=$(grep -c 'GET /authorize' "$work/provider" || true)
  env -i PATH=/usr/bin:/bin HOME="$work/home" XDG_RUNTIME_DIR="$work/run" DISPLAY=":$(cat "$work/display")" BROWSER="$1" LC_ALL=C.UTF-8 \
    "$authflow" login --issuer "$(cat "$work/issuer")" --client-id authflow-demo --private >"$work/out" 2>&1 &
  login=$!
  for _ in $(seq 300); do
    [ "$(grep -c 'GET /authorize' "$work/provider" || true)" -gt "$before" ] && break
    kill -0 "$login" 2>/dev/null || break
    sleep 0.1
  done
  # Only processes of this test, which are identified by the home directory in their environment.
  for process in /proc/[0-9]*; do
    if { tr '\0' '\n' <"$process/environ"; } 2>/dev/null | grep -qxF "HOME=$work/home"; then windows="$windows ${process#/proc/}"; fi
  done
  # A process of the browser may end at any time.
  for process in $windows; do { tr '\0' ' ' <"/proc/$process/cmdline" || true; } 2>/dev/null; echo; done >"$work/windows"
  for process in $windows; do kill "$process" 2>/dev/null || true; done
  wait "$login" 2>/dev/null || true
  [ "$(grep -c 'GET /authorize' "$work/provider" || true)" -gt "$before" ] && grep -q -- "$2" "$work/windows" ||
    { echo "private_windows: $1 opened no private window:" >&2; cat "$work/out" "$work/windows" >&2; exit 1; }
}
visit firefox-esr --private-window
visit "chromium --no-sandbox" --incognito
echo "private windows of Firefox and Chromium requested the provider's page"
