# Helpers for scripts that run several processes: a temporary directory, processes that are terminated when the script exits, and
# functions that wait until a process is ready.
folder=$(mktemp -d)
# Terminates a process that this script has started, and returns its exit status; a process that does not exit within 20 s is killed.
stop() { # a process ID
  kill "$1" || return
  (for _ in $(seq 200); do kill -0 "$1" 2>/dev/null || exit 0; sleep 0.1; done; kill -KILL "$1") &
  wait "$1"
}
processes=()
cleanup() {
  for process in "${processes[@]}"; do stop "$process" 2>/dev/null || true; done
  # A browser that has just been stopped may still be writing files.
  for _ in $(seq 100); do ! rm -rf "$folder" 2>/dev/null || return 0; sleep 0.1; done
}
trap cleanup EXIT
ports_script=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/ports.py
free_port() { "$ports_script"; }
# Waits until a command succeeds, for at most a minute, and only while a process runs: until_ready PROCESS LOG COMMAND [ARGUMENT ...]
until_ready() {
  local process=$1 log=$2 end=$((SECONDS + 60))
  shift 2
  until "$@" 2>/dev/null; do
    kill -0 "$process" && [ $SECONDS -lt $end ] || { echo "$0: failed: $*" >&2; cat "$log" >&2; exit 1; }
    sleep 0.05
  done
}
await() { until_ready "$3" "$2" grep -q "$1" "$2"; } # the pattern to wait for, the output file, the process ID
answers() { until_ready "$2" "$3" curl -sf --max-time 20 -o "$folder/answer" "$1"; } # the URL to wait for, the process ID, the output file
listens() { (: <"/dev/tcp/127.0.0.1/$1"); } # a port
# Starts a server, which writes its log to a file, and waits until it listens: serve FILE COMMAND [ARGUMENT ...]
serve() {
  : >"$1"
  "${@:2}" >>"$1" 2>&1 &
  processes+=($!)
  await listening "$1" $!
}
# Starts the bundled emulator, which writes its URL to a file: emulate FILE [OPTION ...]
emulate() {
  "$authflow" dev-idp "${@:2}" >"$1" 2>"$1.log" &
  processes+=($!)
  await http "$1" $!
}
# Starts a provider where a web application is registered, and writes the application's configuration: provide ORIGIN CONFIGURATION
provide() {
  emulate "$2.issuer" --web-client "$1"
  export WEB_SECRET=authflow-web-secret
  cat >"$2" <<JSON
{"profiles": {"web": {
  "provider": "oidc", "issuer": "$(head -1 "$2.issuer")", "client_id": "authflow-web", "client_secret": {"env": "WEB_SECRET"},
  "redirect_uri": "$1/callback", "scopes": ["openid", "profile", "email", "offline_access"], "store": "memory"
}}, "server": {"allow_plain_http_on_loopback": true}}
JSON
}
# Checks that the operator's routes cannot be reached through the reverse proxy, however their paths are written: hidden ORIGIN
hidden() {
  local path status
  for path in ready ready/ gauges gauges/ forward-auth forward-auth/ %72eady /ready ./ready x/../ready READY 'ready;x' gauges/. gauges%2f '%67auges?' \
    wiki/../gauges wiki/%2e%2e/gauges forward%2dauth; do
    status=$(curl -s --max-time 20 --path-as-is -o "$folder/answer" -w '%{http_code}' "$1/$path")
    [ "$status" = 404 ] || { echo "/$path can be reached from outside: $status" >&2; exit 1; }
  done
}
