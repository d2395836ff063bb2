# For the demonstrations that run several processes: a folder, processes that end with the script, and waiting until one is ready.
folder=$(mktemp -d)
processes=()
cleanup() {
  for process in "${processes[@]}"; do kill "$process" 2>/dev/null && wait "$process" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap cleanup EXIT
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
await() { # what to find, where, whose output it is
  for _ in $(seq 400); do
    ! grep -q "$1" "$2" 2>/dev/null || return 0
    kill -0 "$3" || break
    sleep 0.05
  done
  cat "$2" >&2
  exit 1
}
