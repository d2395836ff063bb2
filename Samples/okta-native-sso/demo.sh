#!/usr/bin/env bash
# Runs two apps from one vendor, each in its own process, against the bundled Okta emulator:
#   Samples/okta-native-sso/demo.sh PATH/TO/authflow PATH/TO/okta-native-sso [--verbose]
set -euo pipefail
authflow=$1 sample=$2
shift 2
source "$(dirname "$0")/../../Tests/processes.sh"
emulate "$folder/issuer" --provider okta
issuer=$(head -1 "$folder/issuer")
origin=${issuer%/oauth2/*}

# Only the first app may enter the password at the provider's origin.
configure() {
  cat > "$folder/$1.json" <<JSON
{"profiles": {"$1": {
  "provider": "okta", "issuer": "$issuer", "client_id": "$1",
  "scopes": ["openid", "profile", "device_sso", "offline_access"],
  "user_agent": {"name": "headless", "username": "alice", "password": {"env": "DEMO_PASSWORD"}, "origins": ["$2"]},
  "store": {"name": "encrypted-file", "directory": "data", "key_file": "key"},
  "shared": {"group": "acme", "store": {"name": "encrypted-file", "directory": "data", "key_file": "key"}}
}}}
JSON
}
configure mail "$origin"
configure calendar "https://nowhere.example.com"

export DEMO_PASSWORD=wonderland
app() { "$sample" "$1" "$folder/$2.json" "${@:3}"; }
app login mail "$@"
app login calendar "$@"
app logout mail "$@"
if app status mail "$@"; then exit 1; fi
if app status calendar "$@"; then exit 1; fi
# The files must be accessible only to this user.
loose=$(find "$folder/data" "$folder/key" \( -type f -o -type d \) -perm /077)
[ -z "$loose" ] || { echo "other users can access $loose" >&2; exit 1; }
