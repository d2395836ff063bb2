#!/usr/bin/env bash
# Runs two apps from one vendor, each in its own process, against the bundled ForgeRock emulator:
#   Samples/forgerock-login/demo.sh PATH/TO/authflow PATH/TO/forgerock-login
# The first app prompts at a terminal; the second has no terminal.
set -euo pipefail
authflow=$1 sample=$2
source "$(dirname "$0")/../../Tests/processes.sh"
emulate "$folder/base" --provider forgerock --cookie-lifetime 10
base=$(head -1 "$folder/base")

profile() {
  cat <<JSON
"$1": {
  "provider": "forgerock", "base_url": "$base", "realm": "/alpha", "client_id": "authflow-demo",
  "acr_values": ["persistent-cookie"], "scopes": ["openid", "profile"], "store": "memory",
  "user_agent": {
    "name": "tree", "base_url": "$base", "realm": "/alpha",
    "shared_cookies": {
      "group": "acme", "names": ["session-jwt"],
      "store": {"name": "encrypted-file", "directory": "data", "key_file": "key"}
    }
  }
}
JSON
}
echo "{\"profiles\": {$(profile mail), $(profile calendar)}}" > "$folder/authflow.json"

# A process without a terminal, where prompts cannot be answered.
alone() { setsid "$sample" "$folder/authflow.json" "$1" < /dev/null; }
# A process at a terminal, where type.py types a name and a password.
asked() {
  "$(dirname "$0")/type.py" 'User Name=alice' 'Password=wonderland' -- "$sample" "$folder/authflow.json" "$1"
}

asked mail
alone calendar
echo "(the cookie expires)"
sleep 10.2
if alone calendar; then exit 1; fi
asked calendar
