#!/usr/bin/env bash
# Runs hostile_browser.py against each program: hostile_browsers.sh PATH/TO/authflow PATH/TO/nio-login ...
# Each program accepts a configuration file and a port as arguments; web-login accepts the port as an option.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
authflow=$1
shift
source "$here/../../Tests/processes.sh"
for program; do
  name=$(basename "$program")
  port=$(free_port)
  origin=http://127.0.0.1:$port
  provide "$origin" "$folder/$name.json"
  option=$([ "$name" != web-login ] || echo --port)
  "$program" "$folder/$name.json" $option "$port" >"$folder/$name" 2>&1 &
  processes+=($!)
  answers "$origin/" $! "$folder/$name"
  python3 "$here/hostile_browser.py" "$origin" || { cat "$folder/$name" >&2; exit 1; }
  stop $! || { echo "$name did not exit with status 0" >&2; cat "$folder/$name" >&2; exit 1; }
done
