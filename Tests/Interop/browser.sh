#!/usr/bin/env bash
# Signs in with the given command-line tool and a real Chromium, as a user would:
#
#   Tests/Interop/browser.sh PATH/TO/authflow
#
# six times, at the bundled provider and at Glewlwyd; after two of these sign-ins, requests userinfo and signs out. A screenshot of the final
# page is saved in .build-browser/.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if [ "${2:-}" != with-glewlwyd ]; then
  exec "$here/glewlwyd.sh" "$0" "$1" with-glewlwyd
fi
authflow=$1
pictures=$here/../../.build-browser
mkdir -p "$pictures"
work=$(mktemp -d)
provider=
forgerock=
cleanup() {
  for process in $provider $forgerock; do { kill "$process" && wait "$process"; } 2>/dev/null || true; done
  # A browser that has just been stopped may still be writing files.
  rm -rf "$work" 2>/dev/null || { sleep 1; rm -rf "$work"; }
}
trap cleanup EXIT

"$authflow" dev-idp >"$work/issuer" 2>/dev/null &
provider=$!
"$authflow" dev-idp --provider forgerock >"$work/base" 2>/dev/null &
forgerock=$!
for _ in $(seq 100); do [ -s "$work/issuer" ] && [ -s "$work/base" ] && break; sleep 0.1; done
base=$(cat "$work/base")

# The browser's environment contains no settings of the driver, so they are in its command line.
profile() { # issuer client redirect-uri driver-settings...
  local issuer=$1 client=$2 redirect=$3
  shift 3
  local browser='"env"'
  for setting in "$@"; do browser="$browser, \"$setting\""; done
  cat <<JSON
{ "provider": "oidc", "issuer": "$issuer", "client_id": "$client", "redirect_uri": "$redirect",
  "scopes": ["openid", "profile", "email"], "timeout": 90,
  "store": { "name": "file", "directory": "$work/store" },
  "user_agent": { "name": "loopback", "browser": [$browser, "$here/browser_login.py"] } }
JSON
}
issuer=$(cat "$work/issuer")
cat >"$work/authflow.json" <<JSON
{ "profiles": {
"emulator": $(profile "$issuer" authflow-demo http://127.0.0.1/callback \
  "BROWSER_LOGIN_SCREENSHOT=$pictures/signed-in" "BROWSER_LOGIN_TEXT=$work/signed-in"),
"denied": $(profile "$issuer" authflow-demo http://localhost/callback BROWSER_LOGIN_DECISION=deny \
  "BROWSER_LOGIN_SCREENSHOT=$pictures/denied" "BROWSER_LOGIN_TEXT=$work/denied"),
"fragment": $(profile "$issuer" authflow-demo http://127.0.0.1/callback BROWSER_LOGIN_PROVIDER=fragment \
  "BROWSER_LOGIN_TEXT=$work/fragment" | sed 's/"timeout"/"response_mode": "fragment", "timeout"/'),
"glewlwyd": $(profile "$AUTHFLOW_GLEWLWYD_ISSUER" authflow-interop "$AUTHFLOW_GLEWLWYD_REDIRECT" \
  BROWSER_LOGIN_PROVIDER=glewlwyd "BROWSER_LOGIN_SCREENSHOT=$pictures/glewlwyd" "BROWSER_LOGIN_TEXT=$work/glewlwyd")
} }
JSON
# One sign-in with the ForgeRock adapter, and one with the generic adapter, which selects the same tree by configuration only.
tree() { # name provider-settings sign-in
  cat <<JSON
{ $2, "client_id": "authflow-demo", "scopes": ["openid", "profile"], "timeout": 90,
  "store": { "name": "file", "directory": "$work/store" },
  "user_agent": { "name": "loopback", "browser": ["env", "BROWSER_LOGIN_PROVIDER=$3",
    "BROWSER_LOGIN_PROFILE=$work/profile", "BROWSER_LOGIN_TEXT=$work/$1", "$here/browser_login.py"] } }
JSON
}
cat >"$work/trees.json" <<JSON
{ "profiles": {
"first": $(tree first "\"provider\": \"forgerock\", \"base_url\": \"$base\", \"realm\": \"/alpha\",
  \"acr_values\": [\"persistent-cookie\"], \"requires_acr\": false" forgerock),
"second": $(tree second "\"provider\": \"oidc\", \"issuer\": \"$base/oauth2/realms/root/realms/alpha\",
  \"parameters\": { \"authorization\": { \"acr_values\": \"persistent-cookie\" } }" unattended)
} }
JSON
export AUTHFLOW_CONFIG=$work/authflow.json

expect() { # file text
  for _ in $(seq 100); do [ -s "$1" ] && break; sleep 0.1; done
  grep -q "$2" "$1" || { echo "browser: expected \"$2\" in:" >&2; cat "$1" >&2; exit 1; }
}

for name in emulator glewlwyd; do
  "$authflow" login --profile $name 2>"$work/talk" || { cat "$work/talk" >&2; exit 1; }
  "$authflow" userinfo --profile $name >"$work/userinfo"
  expect "$work/userinfo" '"name": "Alice Example"'
  # Glewlwyd revokes tokens only for confidential clients, so the tool reports that the tokens remain valid.
  expected=0; [ $name = emulator ] || expected=9
  status=0; "$authflow" logout --profile $name || status=$?
  [ "$status" -eq $expected ] || { echo "browser: logout exits with $status, not $expected" >&2; exit 1; }
  status=0; "$authflow" status --profile $name 2>/dev/null || status=$?
  [ "$status" -eq 4 ] || { echo "browser: still signed in after logout" >&2; exit 1; }
done
expect "$work/signed-in" 'You are signed in'
expect "$work/glewlwyd" 'You are signed in'

status=0; "$authflow" login --profile denied >/dev/null 2>&1 || status=$?
[ "$status" -eq 5 ] || { echo "browser: a denial exits with $status, not 5" >&2; exit 1; }
expect "$work/denied" 'The sign-in failed'
# Parameters named after the methods of a form must not break the page that forwards a fragment.
status=0; "$authflow" login --profile fragment >/dev/null 2>"$work/talk" || status=$?
[ "$status" -eq 5 ] || { cat "$work/talk" >&2; echo "browser: an error in a fragment exits with $status, not 5" >&2; exit 1; }
expect "$work/fragment" 'The sign-in failed'
for name in first second; do
  "$authflow" login --config "$work/trees.json" --profile $name 2>"$work/talk" || { cat "$work/talk" >&2; exit 1; }
  expect "$work/$name" 'You are signed in'
done
echo "browser: all 6 sign-ins with Chromium had the expected result; screenshots are in .build-browser/"
