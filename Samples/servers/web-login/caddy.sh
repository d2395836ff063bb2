#!/usr/bin/env bash
# Runs web-login behind Caddy, with Caddyfile: caddy.sh PATH/TO/authflow PATH/TO/web-login
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
authflow=$1 sample=$2
source "$here/../../../Tests/processes.sh"
port=$(free_port) own=$(free_port) backends=$(free_port)
origin=http://127.0.0.1:$port
provide "$origin" "$folder/authflow.json"
python3 "$here/backends.py" "$backends" &
processes+=($!)
serve "$folder/web" "$sample" "$folder/authflow.json" --port "$own" --api "http://127.0.0.1:$backends/"
sed -e "s/127.0.0.1:8400/127.0.0.1:$port/" -e "s#http://:8400#http://:$port#" -e "s/ 127.0.0.1:8402//" -e "s/127.0.0.1:8401/127.0.0.1:$own/" -e "s/127.0.0.1:8403/127.0.0.1:$backends/" \
  "$here/Caddyfile" >"$folder/Caddyfile"
HOME=$folder XDG_CONFIG_HOME=$folder XDG_DATA_HOME=$folder caddy run --config "$folder/Caddyfile" --adapter caddyfile 2>"$folder/caddy" &
processes+=($!)
answers "$origin/" $! "$folder/caddy"

status() { curl -s -o "$folder/answer" -w '%{http_code} %{redirect_url}' "$@"; }
expect() { # what, wanted, found
  [[ $3 == $2 ]] || { echo "caddy.sh: $1: $3" >&2; cat "$folder/answer" >&2; exit 1; }
}
hidden "$origin"
python3 "$here/../hostile_browser.py" "$origin"
cookie=$(python3 "$here/../hostile_browser.py" "$origin" --cookie)
expect "the wiki without a session" "303 $origin/login?return_to=*My*Page*" "$(status "$origin/wiki/My%20Page?x=1" -H 'X-User: mallory')"
expect "the wiki, requested by a script without a session" "401 " "$(status "$origin/wiki/" -H 'Sec-Fetch-Dest: empty')"
status "$origin/wiki/" -H "Cookie: $cookie" -H "X-User: mallory" -H "X_User: mallory" >/dev/null
expect "the wiki with a session" "The wiki of 248289761001, with 0 cookies." "$(cat "$folder/answer")"
expect "the wiki, requested by another site" "403 " "$(status -X POST "$origin/wiki/" -H "Cookie: $cookie" -H "Origin: https://evil.example")"
expect "an upgrade to another protocol" "200 " "$(status --max-time 20 "$origin/wiki/" -H "Cookie: $cookie" -H "Connection: Upgrade" -H "Upgrade: h2c")"
curl -sN -H "Cookie: $cookie" -H "X-AuthFlow: 1" "$origin/api/events" >"$folder/answer"
expect "events" "data: 0*data: 2*" "$(cat "$folder/answer")"
echo "Behind Caddy: signed in, used another application behind forward_auth, received events, and could not reach the operator's routes"
