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
source "$here/../processes.sh"

emulate "$folder/issuer"
emulate "$folder/base" --provider forgerock
base=$(cat "$folder/base")

# The browser's environment contains no settings of the driver, so they are in its command line.
profile() { # issuer client redirect-uri driver-settings...
  local issuer=$1 client=$2 redirect=$3
  shift 3
  local browser='"env"'
  for setting in "$@"; do browser="$browser, \"$setting\""; done
  cat <<JSON
{ "provider": "oidc", "issuer": "$issuer", "client_id": "$client", "redirect_uri": "$redirect",
  "scopes": ["openid", "profile", "email"], "timeout": 90,
  "store": { "name": "file", "directory": "$folder/store" },
  "user_agent": { "name": "loopback", "browser": [$browser, "$here/browser_login.py"] } }
JSON
}
issuer=$(cat "$folder/issuer")
cat >"$folder/authflow.json" <<JSON
{ "profiles": {
"emulator": $(profile "$issuer" authflow-demo http://127.0.0.1/callback \
  "BROWSER_LOGIN_SCREENSHOT=$pictures/signed-in" "BROWSER_LOGIN_TEXT=$folder/signed-in"),
"denied": $(profile "$issuer" authflow-demo http://localhost/callback BROWSER_LOGIN_DECISION=deny \
  "BROWSER_LOGIN_SCREENSHOT=$pictures/denied" "BROWSER_LOGIN_TEXT=$folder/denied"),
"fragment": $(profile "$issuer" authflow-demo http://127.0.0.1/callback BROWSER_LOGIN_PROVIDER=fragment \
  "BROWSER_LOGIN_TEXT=$folder/fragment" | sed 's/"timeout"/"response_mode": "fragment", "timeout"/'),
"glewlwyd": $(profile "$AUTHFLOW_GLEWLWYD_ISSUER" authflow-interop "$AUTHFLOW_GLEWLWYD_REDIRECT" \
  BROWSER_LOGIN_PROVIDER=glewlwyd "BROWSER_LOGIN_SCREENSHOT=$pictures/glewlwyd" "BROWSER_LOGIN_TEXT=$folder/glewlwyd")
} }
JSON
# One sign-in with the ForgeRock adapter, and one with the generic adapter, which selects the same tree by configuration only.
tree() { # name provider-settings sign-in
  cat <<JSON
{ $2, "client_id": "authflow-demo", "scopes": ["openid", "profile"], "timeout": 90,
  "store": { "name": "file", "directory": "$folder/store" },
  "user_agent": { "name": "loopback", "browser": ["env", "BROWSER_LOGIN_PROVIDER=$3",
    "BROWSER_LOGIN_PROFILE=$folder/profile", "BROWSER_LOGIN_TEXT=$folder/$1", "$here/browser_login.py"] } }
JSON
}
cat >"$folder/trees.json" <<JSON
{ "profiles": {
"first": $(tree first "\"provider\": \"forgerock\", \"base_url\": \"$base\", \"realm\": \"/alpha\",
  \"acr_values\": [\"persistent-cookie\"], \"requires_acr\": false" forgerock),
"second": $(tree second "\"provider\": \"oidc\", \"issuer\": \"$base/oauth2/realms/root/realms/alpha\",
  \"parameters\": { \"authorization\": { \"acr_values\": \"persistent-cookie\" } }" unattended)
} }
JSON
export AUTHFLOW_CONFIG=$folder/authflow.json

expect() { # file text
  await "$2" "$1" $$
}

for name in emulator glewlwyd; do
  "$authflow" login --profile $name 2>"$folder/talk" || { cat "$folder/talk" >&2; exit 1; }
  "$authflow" userinfo --profile $name >"$folder/userinfo"
  expect "$folder/userinfo" '"name": "Alice Example"'
  # Glewlwyd revokes tokens only for confidential clients, so the tool reports that the tokens remain valid.
  expected=0; [ $name = emulator ] || expected=9
  status=0; "$authflow" logout --profile $name || status=$?
  [ "$status" -eq $expected ] || { echo "browser: logout exits with $status, not $expected" >&2; exit 1; }
  status=0; "$authflow" status --profile $name 2>/dev/null || status=$?
  [ "$status" -eq 4 ] || { echo "browser: still signed in after logout" >&2; exit 1; }
done
expect "$folder/signed-in" 'You are signed in'
expect "$folder/glewlwyd" 'You are signed in'

status=0; "$authflow" login --profile denied >/dev/null 2>&1 || status=$?
[ "$status" -eq 5 ] || { echo "browser: a denial exits with $status, not 5" >&2; exit 1; }
expect "$folder/denied" 'The sign-in failed'
# Parameters named after the methods of a form must not break the page that forwards a fragment.
status=0; "$authflow" login --profile fragment >/dev/null 2>"$folder/talk" || status=$?
[ "$status" -eq 5 ] || { cat "$folder/talk" >&2; echo "browser: an error in a fragment exits with $status, not 5" >&2; exit 1; }
expect "$folder/fragment" 'The sign-in failed'
for name in first second; do
  "$authflow" login --config "$folder/trees.json" --profile $name 2>"$folder/talk" || { cat "$folder/talk" >&2; exit 1; }
  expect "$folder/$name" 'You are signed in'
done
echo "browser: all 6 sign-ins with Chromium had the expected result; screenshots are in .build-browser/"
