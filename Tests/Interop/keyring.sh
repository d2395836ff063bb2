#!/usr/bin/env bash
# Runs a command with a separate GNOME Keyring, on a separate session bus:
#   keyring.sh unlocked COMMAND...    an unlocked keyring
#   keyring.sh locked COMMAND...      a locked keyring, without a prompt to unlock it
#   keyring.sh absent COMMAND...      a session bus with no keyring at all
#   keyring.sh hanging COMMAND...     a keyring that accepts every call and never responds
# The user's keyring is not touched, and all started processes are stopped.
set -euo pipefail

if [ "${1:-}" != --inside ]; then
  home=$(mktemp -d)
  trap 'rm -rf "$home"' EXIT
  mkdir -m 700 "$home/run"
  # A bus without activatable services: this script starts every service on it.
  sed "s|@HOME@|$home|" > "$home/bus.conf" <<'BUS'
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:tmpdir=@HOME@</listen>
  <policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>
BUS
  env -u DISPLAY -u WAYLAND_DISPLAY HOME="$home" XDG_DATA_HOME="$home/data" XDG_RUNTIME_DIR="$home/run" \
    AUTHFLOW_KEYRING="$1" dbus-run-session --config-file="$home/bus.conf" -- "$0" --inside "$@"
  exit
fi

shift
state=$1
shift
source "$(dirname "$0")/../processes.sh"
has_service() {
  dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.NameHasOwner string:org.freedesktop.secrets |
    grep -q 'boolean true'
}
start() {
  gnome-keyring-daemon --foreground --components=secrets "$@" <&0 >"$HOME/keyring.log" 2>&1 & processes=($!)
  until_ready $! "$HOME/keyring.log" has_service
}
case $state in
  absent) ;;
  unlocked)
    # The first unlock creates the login keyring.
    start --unlock < <(printf 'password')
    ;;
  locked)
    start --unlock < <(printf 'password')
    stop "${processes[0]}" 2>/dev/null || true
    # A new daemon finds the keyring on disk, but does not have its password.
    start
    ;;
  hanging)
    start --unlock < <(printf 'password')
    kill -STOP "${processes[0]}"
    trap 'kill -CONT "${processes[0]}"; cleanup' EXIT
    ;;
  *) echo "keyring.sh: the state must be unlocked, locked, absent or hanging" >&2; exit 2 ;;
esac
"$@"
