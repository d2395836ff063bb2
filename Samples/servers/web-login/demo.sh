#!/usr/bin/env bash
# Signs in to the web application with two real Chromium browsers, at the bundled provider, and signs out everywhere in one of them:
#
#   Samples/servers/web-login/demo.sh PATH/TO/authflow PATH/TO/web-login [STORE]
#
# STORE is the profile's store in JSON; default: {"name": "memory"}. With any other store, two processes run behind nginx (nginx.conf) and
# alternate from page to page, and both are replaced while requests continue. A second application requests the signed-in user from the
# first one; an API behind the first one's proxy sends events and 256 MiB. Screenshots of the pages are saved under .build-browser/.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
authflow=$1 sample=$2 store=${3:-"{\"name\": \"memory\"}"}
source "$here/../../../Tests/processes.sh"

port=$(free_port)
origin=http://127.0.0.1:$port
emulate "$folder/issuer" --web-client "$origin" --token-lifetime 20
export WEB_SECRET=authflow-web-secret
cat >"$folder/authflow.json" <<JSON
{"profiles": {"web": {
  "provider": "oidc", "issuer": "$(head -1 "$folder/issuer")", "client_id": "authflow-web", "client_secret": {"env": "WEB_SECRET"},
  "redirect_uri": "$origin/callback", "post_logout_redirect_uri": "$origin/",
  "scopes": ["openid", "profile", "email", "offline_access"], "store": $store
}}, "server": {"application_name": "web-login", "allow_plain_http_on_loopback": true, "session_claims": ["email"]}}
JSON
"$authflow" config check --config "$folder/authflow.json"
case $store in *postgresql*) "$authflow" store migrate --config "$folder/authflow.json" ;; esac
backends=$(free_port)
python3 "$here/backends.py" "$backends" & processes+=($!)
ports=("$(free_port)")
case $store in *memory*) ;; *) ports+=("$(free_port)") ;; esac
start() { # a port
  serve "$folder/web-$1" "$sample" "$folder/authflow.json" --port "$1" --api "http://127.0.0.1:$backends/"
  application=$!
}
declare -A applications
for each in "${ports[@]}"; do start "$each" && applications[$each]=$application; done

paths=$(for kind in client_body proxy fastcgi uwsgi scgi; do echo -n "${kind}_temp_path $folder/$kind; "; done)
sed -e "s/127.0.0.1:8400/127.0.0.1:$port/" -e "s/127.0.0.1:8401/127.0.0.1:${ports[0]}/" \
  -e "s/127.0.0.1:8402/127.0.0.1:${ports[-1]}/" -e "s/127.0.0.1:8403/127.0.0.1:$backends/" \
  -e "s#^daemon off;#daemon off; pid $folder/nginx.pid; error_log stderr;#" -e "s#access_log off;#access_log off; $paths#" \
  "$here/nginx.conf" >"$folder/nginx.conf"
nginx -c "$folder/nginx.conf" -p "$folder" 2>"$folder/nginx" & processes+=($!)
answers "$origin/" $! "$folder/nginx"
status() { curl -s --max-time 30 -o "$folder/answer" -w '%{http_code}' "$@"; }
hidden "$origin"
WEB_LOGIN_PROCESS=$application WEB_LOGIN_ADDRESS=127.0.0.1:${ports[0]} WEB_LOGIN_STRANGER=http://127.0.0.1:$backends/wiki/ \
 WEB_LOGIN_COOKIE=$folder/cookie \
  python3 "$here/two_browsers.py" "$origin" "$here/../../../.build-browser"
[ "$(status -H "Sec-Fetch-Dest: empty" "$origin/wiki/")" = 401 ] || { echo "nginx redirects a script to the sign-in" >&2; exit 1; }
# A redirect whose URL contains a large ID Token.
[ "$(status -H "Cookie: $(cat "$folder/cookie")" "$origin/wiki/long-redirect")" = 303 ] || { echo "nginx does not forward a long redirect" >&2; exit 1; }
# The largest send queue of a process's connections.
queue() { awk -v port="$(printf ':%04X$' "$1")" '$2 ~ port { split($5, q, ":"); if (q[1] > most) most = q[1] } END { print most }' /proc/net/tcp; }
until_stalled() { # a port
  local before now=
  for _ in $(seq 100); do
    before=$now
    now=$(queue "$1")
    [ "$now" != "$before" ] || [[ $now != *[1-9A-F]* ]] || return 0
    sleep 0.2
  done
  echo "the download has not stalled" >&2
  exit 1
}
no_errors() { ! grep -iE "error|fatal" "$folder"/web-* || exit 1; }
no_errors
case $store in
  *memory*) ;;
  *) # Each alert uses a gauge that the process reports.
    curl -sf --max-time 20 -o "$folder/gauges" "http://127.0.0.1:${ports[0]}/gauges"
    for name in $(grep -o "authflow_[a-z_]*" "$here/alerts.yml"); do
      grep -q "^$name[ {]" "$folder/gauges" || { echo "there is no gauge $name" >&2; cat "$folder/gauges" >&2; exit 1; }
    done ;;
esac

# A stopped process would remain after an error.
stopped=
trap '[ -z "$stopped" ] || kill -KILL "$stopped"; cleanup' EXIT
# Replaces both processes, one after the other, while requests continue. A stalled download does not prevent a process from exiting: the
# download is aborted, and the client can detect that it is incomplete.
if [ ${#ports[@]} -gt 1 ]; then
  touch "$folder/replacing"
  while [ -e "$folder/replacing" ]; do status "$origin/" && echo; done >"$folder/statuses" &
  load=$!
  for each in "${ports[@]}"; do
    # Migrates the tables to a later schema version that this program still supports: running processes continue to
    # work, and new processes start.
    case $store in *postgresql*) "$here/operations.sh" next-tables ;; esac
    curl -s -H "X-AuthFlow: 1" -H "Cookie: $(cat "$folder/cookie")" -o "$folder/download" "http://127.0.0.1:$each/api/large" &
    download=$!
    until [ -s "$folder/download" ]; do kill -0 "$download" || { echo "there is no download to abort" >&2; exit 1; }; done
    kill -STOP "$download"
    stopped=$download
    # The first process is between two writes when it is stopped, and the last process waits for the client to read.
    [ "$each" != "${ports[-1]}" ] || until_stalled "$each"
    stop "${applications[$each]}" || { cat "$folder/web-$each" >&2; exit 1; }
    kill -CONT "$download"
    stopped=
    ! wait "$download" || { echo "an aborted download looked complete" >&2; exit 1; }
    rm "$folder/download"
    no_errors
    start "$each" && applications[$each]=$application
  done
  rm "$folder/replacing" && wait "$load"
  [ "$(sort -u "$folder/statuses")" = 200 ] || { sort "$folder/statuses" | uniq -c >&2; exit 1; }
  echo "Replaced both processes: $(wc -l <"$folder/statuses") requests in the meantime, all with status 200"
fi

# Restores a backup: sessions in the backup remain valid, and a session that started later is lost, so its user must sign in again.
case $store in *postgresql* | *sqlite* | *redis*)
  earlier=$(python3 "$here/../hostile_browser.py" "$origin" --cookie)
  "$here/operations.sh" backup "$store" "$folder/backup"
  later=$(python3 "$here/../hostile_browser.py" "$origin" --cookie)
  for each in "${ports[@]}"; do stop "${applications[$each]}" || exit 1; done
  no_errors
  "$here/operations.sh" restore "$store" "$folder/backup"
  for each in "${ports[@]}"; do start "$each" && applications[$each]=$application; done
  page() { curl -s --max-time 20 -H "Cookie: $1" "$origin/" | sed 's/<[^>]*>//g'; }
  [[ $(page "$earlier") == *"Signed in as Alice Example"* && $(page "$later") == *"No user is signed in"* ]] || { echo "the backup was not restored correctly" >&2; exit 1; }
  "$authflow" store check --config "$folder/authflow.json"
  echo "Restored a backup: its sessions remain valid, and a later session is lost" ;;
esac
case $store in *postgresql*)
  # Migrates the tables to a schema version that this program does not support: a new process does not become ready,
  # and the tool reports the reason.
  no_errors
  "$here/operations.sh" needed-tables
  each=${ports[0]}
  stop "${applications[$each]}" || exit 1
  start "$each"
  [ "$(status "http://127.0.0.1:$each/ready")" = 503 ] && grep -q "Upgrade the program" "$folder/answer" || { echo "ready with tables of a later version" >&2; exit 1; }
  ! "$authflow" store check --config "$folder/authflow.json" >"$folder/answer" 2>/dev/null || exit 1
  grep -q "Upgrade the program" "$folder/answer" || { cat "$folder/answer" >&2; exit 1; } ;;
esac

if [ ${#ports[@]} -eq 1 ]; then
  grep -q "has ended: replaced" "$folder"/web-* && grep -q "has ended: signed_out" "$folder"/web-*
  # The same application with two providers; the user chooses one.
  port=$(free_port) && origin=http://127.0.0.1:$port
  for name in staff guests; do
    emulate "$folder/$name" --web-client "$origin/$name"
    cat <<JSON
"$name": {
  "provider": "oidc", "issuer": "$(head -1 "$folder/$name")", "client_id": "authflow-web", "client_secret": {"env": "WEB_SECRET"},
  "redirect_uri": "$origin/$name/callback", "scopes": ["openid", "profile", "email", "offline_access"], "store": $store
},
JSON
  done >"$folder/providers"
  cat >"$folder/several.json" <<JSON
{"profiles": {$(sed '$ s/},/}/' "$folder/providers")}, "server": {
  "providers": [{"profile": "staff", "display_name": "Staff"}, {"profile": "guests", "display_name": "Guests"}],
  "application_name": "web-login", "allow_plain_http_on_loopback": true
}}
JSON
  "$authflow" config check --config "$folder/several.json"
  serve "$folder/several" "$sample" "$folder/several.json" --port "$port"
  python3 "$here/two_browsers.py" "$origin" "$here/../../../.build-browser" Guests
  ! grep -iE "error|fatal" "$folder/several" || exit 1
fi
echo "Signed in with two browsers, and out of both: $store"
