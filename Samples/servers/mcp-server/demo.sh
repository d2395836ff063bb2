#!/usr/bin/env bash
# Calls the MCP server's tool through authflow's bridge, with only the server's URL configured:
#
#   Samples/servers/mcp-server/demo.sh PATH/TO/authflow PATH/TO/mcp-server [CLIENT...]
#
# CLIENT is a program to run instead of the bridge; the URL is its last argument.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
authflow=$1 sample=$2
shift 2
source "$here/../../../Tests/processes.sh"

emulate "$folder/issuer"
port=$(free_port)
address=http://127.0.0.1:$port/mcp
printf '{"resource_server": {"resource": "%s", "issuers": ["%s"], "scopes": ["mcp:tools"]}}\n' \
  "$address" "$(head -1 "$folder/issuer")" >"$folder/server.json"
serve "$folder/server.log" "$sample" "$folder/server.json" "$port"

if [ $# -gt 0 ]; then
  "$@" "$address"
  exit
fi
echo "== without a token"
curl -sS -i -d '{}' "$address" | tr -d '\r' | grep -E "^(HTTP|www-authenticate)" -i
echo "== authflow mcp connect, as a host starts it"
printf '#!/bin/sh\nexec python3 "%s/../orders-api/calls.py" "$1"\n' "$here" >"$folder/browser"
chmod 700 "$folder/browser"
cd "$folder"
export XDG_DATA_HOME=$folder/data XDG_CONFIG_HOME=$folder/config BROWSER=$folder/browser DISPLAY=:0
python3 "$here/host.py" "$authflow" "$address"
"$authflow" mcp status
