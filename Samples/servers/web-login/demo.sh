#!/usr/bin/env bash
# Signs in to the web application with two real Chromiums, at the bundled provider, and signs out everywhere in one of them:
#
#   Samples/servers/web-login/demo.sh PATH/TO/authflow PATH/TO/web-login [STORE]
#
# STORE is the profile's store in JSON; default: {"name": "memory"}. With another store there are two processes, and every page comes from
# another one than the page before. Pictures of the pages are saved under .build-browser/.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
authflow=$1 sample=$2 store=${3:-"{\"name\": \"memory\"}"}
source "$here/../processes.sh"

port=$(free_port)
origin=http://127.0.0.1:$port
"$authflow" dev-idp --web-client "$origin" --token-lifetime 20 >"$folder/issuer" 2>"$folder/provider" &
processes+=($!)
await http "$folder/issuer" $!
cat >"$folder/authflow.json" <<JSON
{"profiles": {"web": {
  "provider": "oidc", "issuer": "$(head -1 "$folder/issuer")", "client_id": "authflow-web", "client_secret": {"env": "WEB_SECRET"},
  "redirect_uri": "$origin/callback", "post_logout_redirect_uri": "$origin/",
  "scopes": ["openid", "profile", "email", "offline_access"], "store": $store
}}}
JSON
export WEB_SECRET=authflow-web-secret
case $store in *postgresql*) "$authflow" store migrate --config "$folder/authflow.json" ;; esac
ports=("$port")
case $store in *memory*) ;; *) ports=("$(free_port)" "$(free_port)") ;; esac
for each in "${ports[@]}"; do
  "$sample" "$folder/authflow.json" --port "$each" >"$folder/web-$each" 2>&1 &
  processes+=($!)
  await listening "$folder/web-$each" $!
done
if [ ${#ports[@]} -gt 1 ]; then
  python3 "$here/alternate.py" "$port" "${ports[@]}" &
  processes+=($!)
fi
python3 "$here/two_browsers.py" "$origin" "$here/../../../.build-browser"
! grep -iE "error|fatal" "$folder"/web-* || exit 1
if [ ${#ports[@]} -eq 1 ]; then
  grep -q "has ended: replaced" "$folder"/web-* && grep -q "has ended: signed_out" "$folder"/web-*
  # The same application with two providers, of which the user chooses one.
  port=$(free_port) && origin=http://127.0.0.1:$port
  for name in staff guests; do
    "$authflow" dev-idp --web-client "$origin/$name" >"$folder/$name" 2>"$folder/$name-provider" &
    processes+=($!)
    await http "$folder/$name" $!
    cat <<JSON
"$name": {
  "provider": "oidc", "issuer": "$(head -1 "$folder/$name")", "client_id": "authflow-web", "client_secret": {"env": "WEB_SECRET"},
  "redirect_uri": "$origin/$name/callback", "scopes": ["openid", "profile", "email", "offline_access"], "store": $store
},
JSON
  done >"$folder/providers"
  echo "{\"profiles\": {$(sed '$ s/},/}/' "$folder/providers")}}" >"$folder/several.json"
  "$sample" "$folder/several.json" --profile staff --profile guests --port "$port" >"$folder/several" 2>&1 &
  processes+=($!)
  await listening "$folder/several" $!
  python3 "$here/two_browsers.py" "$origin" "$here/../../../.build-browser" Guests
  ! grep -iE "error|fatal" "$folder/several" || exit 1
fi
echo "Signed in with two browsers, and out of both: $store"
