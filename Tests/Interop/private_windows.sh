#!/usr/bin/env bash
# Opens private windows of Firefox and Chromium on a separate screen, and waits until each has requested the provider's page:
#
#   Tests/Interop/private_windows.sh PATH/TO/authflow
set -euo pipefail
authflow=$(realpath "$1")
source "$(dirname "$0")/../processes.sh"
Xvfb -displayfd 3 -screen 0 1000x700x24 -nolisten tcp 3>"$folder/display" 2>/dev/null & processes+=($!)
await . "$folder/display" $!
emulate "$folder/issuer"
mkdir -m 700 "$folder/home" "$folder/run"

visit() { # what BROWSER names, the option that is expected
  local before login windows=
  before=$(grep -c 'GET /authorize' "$folder/issuer.log" || true)
  env -i PATH=/usr/bin:/bin HOME="$folder/home" XDG_RUNTIME_DIR="$folder/run" DISPLAY=":$(cat "$folder/display")" BROWSER="$1" LC_ALL=C.UTF-8 \
    "$authflow" login --issuer "$(cat "$folder/issuer")" --client-id authflow-demo --private >"$folder/out" 2>&1 &
  login=$!
  requested() { [ "$(grep -c 'GET /authorize' "$folder/issuer.log")" -gt "$before" ]; }
  # In a subshell, because the browser must be stopped first.
  (until_ready "$login" "$folder/out" requested) || true
  # Only processes of this test, which are identified by the home directory in their environment.
  for process in /proc/[0-9]*; do
    if { tr '\0' '\n' <"$process/environ"; } 2>/dev/null | grep -qxF "HOME=$folder/home"; then windows="$windows ${process#/proc/}"; fi
  done
  # A process of the browser may end at any time.
  for process in $windows; do { tr '\0' ' ' <"/proc/$process/cmdline" || true; } 2>/dev/null; echo; done >"$folder/windows"
  for process in $windows; do kill "$process" 2>/dev/null || true; done
  wait "$login" 2>/dev/null || true
  requested && grep -q -- "$2" "$folder/windows" ||
    { echo "private_windows: $1 opened no private window:" >&2; cat "$folder/out" "$folder/windows" >&2; exit 1; }
}
visit firefox-esr --private-window
visit "chromium --no-sandbox" --incognito
echo "private windows of Firefox and Chromium requested the provider's page"
