#!/usr/bin/env bash
# Plays the hostile browsers of hostile_browser.py against each program: hostile_browsers.sh PATH/TO/authflow PATH/TO/nio-login ...
# Each takes a configuration and a port. web-login takes the port as an option.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
authflow=$1
shift
source "$here/processes.sh"
export WEB_SECRET=authflow-web-secret
for program; do
  name=$(basename "$program")
  port=$(free_port)
  origin=http://127.0.0.1:$port
  "$authflow" dev-idp --web-client "$origin" >"$folder/$name-issuer" 2>"$folder/provider" &
  processes+=($!)
  await http "$folder/$name-issuer" $!
  cat >"$folder/$name.json" <<JSON
{"profiles": {"web": {
  "provider": "oidc", "issuer": "$(head -1 "$folder/$name-issuer")", "client_id": "authflow-web", "client_secret": {"env": "WEB_SECRET"},
  "redirect_uri": "$origin/callback", "scopes": ["openid", "profile", "email", "offline_access"], "store": "memory"
}}, "server": {"allow_plain_http_on_loopback": true}}
JSON
  option=$([ "$name" != web-login ] || echo --port)
  "$program" "$folder/$name.json" $option "$port" >"$folder/$name" 2>&1 &
  processes+=($!)
  until curl -s -o "$folder/answer" "$origin/"; do kill -0 $! || { cat "$folder/$name" >&2; exit 1; }; sleep 0.05; done
  python3 "$here/hostile_browser.py" "$origin" || { cat "$folder/$name" >&2; exit 1; }
  kill $! && wait $! || { echo "$name did not end well" >&2; cat "$folder/$name" >&2; exit 1; }
done
