#!/usr/bin/env bash
# Calls the API: with only its URL configured, with valid tokens, and with every kind of invalid token:
#
#   Samples/servers/orders-api/demo.sh PATH/TO/authflow PATH/TO/orders-api
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
authflow=$1 sample=$2
source "$here/../../../Tests/processes.sh"
api() { # name, issuer, port
  printf '{"resource_server": {"resource": "http://127.0.0.1:%s/api", "issuers": ["%s"], "scopes": ["orders:read"]}}\n' \
    "$3" "$(head -1 "$folder/$2")" >"$folder/$1.json"
  serve "$folder/$1.log" "$sample" "$folder/$1.json" "$3"
}
emulate "$folder/issuer"
emulate "$folder/expired" --token-lifetime=-120
port=$(free_port) other=$(free_port)
api api issuer "$port"
api expired-api expired "$other"
origin=http://127.0.0.1:$port

echo "== authflow curl, with only the URL"
printf '#!/bin/sh\nexec python3 "%s/calls.py" "$1"\n' "$here" >"$folder/browser"
chmod 700 "$folder/browser"
cd "$folder"
export XDG_DATA_HOME=$folder/data XDG_CONFIG_HOME=$folder/config BROWSER=$folder/browser DISPLAY=:0
"$authflow" curl --sign-in --quiet --at "$origin/api" "$origin/api/orders"
# A route that requires a stronger and more recent sign-in: the same command signs in again.
"$authflow" curl --sign-in --quiet --at "$origin/api" "$origin/api/payments"

echo "== authflow access-token check, for operators"
"$authflow" config check "$folder/api.json"
"$authflow" token --quiet "$origin/api" >"$folder/token"
"$authflow" access-token check --config "$folder/api.json" --scope orders:read <"$folder/token"
status=0
"$authflow" access-token check --config "$folder/api.json" --scope orders:admin <"$folder/token" | tail -1 || status=$?
[ "$status" -eq 1 ] || { echo "The check of a token without the scope exited with $status instead of 1." >&2; exit 1; }
echo "== every kind of token"
python3 "$here/calls.py" "$authflow" "$origin" "$(head -1 "$folder/issuer")" "http://127.0.0.1:$other" "$(head -1 "$folder/expired")"
echo "== the reasons, which only the log contains"
sed -n 's/.*reason=\(.*\) status=.*/\1/p' "$folder/api.log" | sort | uniq -c | sort -rn | head -12
