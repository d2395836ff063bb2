#!/usr/bin/env bash
# Runs demo.sh with the databases that Tests/Databases/databases.sh has started: demo_databases.sh PATH/TO/authflow PATH/TO/web-login
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/demo.sh" "$1" "$2" "{\"name\": \"sqlite\", \"path\": \"$AUTHFLOW_SQLITE/sessions.sqlite\"}"
"$here/demo.sh" "$1" "$2" "{\"name\": \"postgresql\", \"url\": \"$AUTHFLOW_POSTGRESQL\"}"
"$here/demo.sh" "$1" "$2" "{\"name\": \"redis\", \"url\": \"$AUTHFLOW_REDIS\"}"
