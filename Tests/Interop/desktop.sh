#!/usr/bin/env bash
# Signs in like a user of a Linux desktop, without stubs:
#
#   Tests/Interop/desktop.sh PATH/TO/authflow
#
# uses an X server (Xvfb), xdg-open, xdg-mime, .desktop entries, and a headed Chromium. The first redirect uses a
# private-use scheme, which Chromium passes to xdg-open, and xdg-open to `authflow handle-redirect`; the second uses a
# loopback port. Then a sign-in is denied, and another fails. Screenshots of the result pages, in light and dark mode,
# are saved in .build-browser/.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
authflow=$(realpath "$1")
pictures=$here/../../.build-browser
mkdir -p "$pictures"
source "$here/../processes.sh"

Xvfb -displayfd 3 -screen 0 1000x700x24 -nolisten tcp 3>"$folder/display" 2>/dev/null & processes+=($!)
await . "$folder/display" $!
emulate "$folder/issuer"

# A separate user, with a desktop that is isolated from the machine's desktop.
mkdir -p "$folder/home/.local/share/applications" "$folder/run"
chmod 700 "$folder/run"
unset BROWSER SSH_CONNECTION SSH_CLIENT SSH_TTY WAYLAND_DISPLAY XDG_CURRENT_DESKTOP DESKTOP_SESSION
export HOME=$folder/home XDG_RUNTIME_DIR=$folder/run DISPLAY=:$(cat "$folder/display")
export XDG_CONFIG_HOME=$HOME/.config XDG_DATA_HOME=$HOME/.local/share

# The user's browser, which xdg-open starts for web URLs, with a simulated user.
browser() { # settings...
  cat >"$XDG_DATA_HOME/applications/user.desktop" <<ENTRY
[Desktop Entry]
Type=Application
Name=A browser with a simulated user
Exec=env BROWSER_LOGIN_WINDOW=yes $* $here/browser_login.py %u
MimeType=x-scheme-handler/http;x-scheme-handler/https;
ENTRY
  xdg-mime default user.desktop x-scheme-handler/http
}
profile() { # redirect-uri algorithm
  echo "{ \"provider\": \"oidc\", \"issuer\": \"$(cat "$folder/issuer")\", \"client_id\": \"authflow-demo\", \"timeout\": 90,
    \"scopes\": [\"openid\", \"profile\"], \"id_token_signing_algorithms\": [\"$2\"], \"redirect_uri\": \"$1\", \"store\": { \"name\": \"file\", \"directory\": \"$folder/store\" } }"
}
scheme=com.example.authflow
cat >"$folder/authflow.json" <<JSON
{ "profiles": {
  "scheme": $(profile "$scheme:/callback" ES256),
  "port": $(profile http://127.0.0.1/callback ES256),
  "error": $(profile http://127.0.0.1/callback ES512)
} }
JSON
export AUTHFLOW_CONFIG=$folder/authflow.json

login() { # profile status words
  rm -f "$folder/end" "$folder/text"
  status=0
  "$authflow" login --profile "$1" >"$folder/out" 2>"$folder/talk" || status=$?
  touch "$folder/end"
  [ "$status" -eq "$2" ] && grep -q "$3" "$folder/talk" "$folder/out" ||
    { echo "desktop: $1 ended with $status:" >&2; cat "$folder/talk" "$folder/out" >&2; exit 1; }
}
page() { await "$1" "$folder/text" $$; } # words

login scheme 4 'authflow scheme install'
"$authflow" scheme install --profile scheme
[ "$(xdg-mime query default x-scheme-handler/$scheme)" = "authflow-$scheme.desktop" ]
browser "BROWSER_LOGIN_SCHEME=$scheme" "BROWSER_LOGIN_END=$folder/end"
login scheme 0 'Signed in as Alice Example'
grep -q 'User agent: system-browser, because xdg-open can open a browser (DISPLAY is set)' "$folder/talk"
[ -z "$(ls -A "$XDG_RUNTIME_DIR/authflow")" ]
"$authflow" logout --profile scheme
"$authflow" scheme remove --profile scheme
if "$authflow" scheme status --profile scheme 2>/dev/null; then echo "desktop: the scheme is still registered" >&2; exit 1; fi

browser "BROWSER_LOGIN_TEXT=$folder/text" "BROWSER_LOGIN_SCREENSHOT=$pictures/desktop-signed-in"
login port 0 'Signed in as Alice Example'
grep -q 'User agent: loopback, because xdg-open can open a browser (DISPLAY is set)' "$folder/talk"
page 'You are signed in'
"$authflow" logout --profile port

browser BROWSER_LOGIN_DECISION=deny "BROWSER_LOGIN_TEXT=$folder/text" "BROWSER_LOGIN_SCREENSHOT=$pictures/desktop-denied"
login port 5 'denied'
page 'The sign-in failed'

browser "BROWSER_LOGIN_TEXT=$folder/text" "BROWSER_LOGIN_SCREENSHOT=$pictures/desktop-error"
login error 1 'ES512'
page 'The sign-in failed'
echo "desktop: all 4 sign-ins on a desktop had the expected result; screenshots are in .build-browser/"
