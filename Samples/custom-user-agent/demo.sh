#!/usr/bin/env bash
# Signs in at the bundled provider with this package's user agent:
#   demo.sh PATH/TO/authflow [PATH/TO/custom-user-agent]
# Without the second path, it builds this package first.
set -euo pipefail
authflow=$(realpath "$1") sample=${2:+$(realpath "$2")}
cd "$(dirname "$0")"
if [ -z "$sample" ]; then
  swift build
  sample=$(swift build --show-bin-path)/custom-user-agent
fi
source ../../Tests/processes.sh
emulate "$folder/issuer"
# The program's path is relative to the directory of the configuration file.
cp sign-in.py "$folder"
sed "s#http://127.0.0.1:8400#$(cat "$folder/issuer")#" authflow.json >"$folder/authflow.json"
said=$("$sample" "$folder/authflow.json")
echo "$said"
[ "$said" = $'command was chosen\nHello, Alice Example' ]
# A program that returns no authorization response.
sed -i 's#"./sign-in.py"#"echo", "com.example:/nothing"#' "$folder/authflow.json"
said=$("$sample" "$folder/authflow.json") && exit 1
echo "$said"
grep -q 'Not signed in: The program did not return the authorization response.' <<<"$said"
