#!/usr/bin/env bash
# Runs a command together with dedicated PostgreSQL and Redis servers (Debian packages).
#
#   Tests/Databases/databases.sh COMMAND [ARGUMENT ...]
#
# Installs missing packages, starts both servers on sockets in a new directory, runs the command, and stops the servers. The
# command's environment contains:
#   AUTHFLOW_POSTGRESQL  the database's connection string
#   AUTHFLOW_REDIS       the Redis server's URL
#   AUTHFLOW_SQLITE      a directory for SQLite files
#   AUTHFLOW_DATABASES   a program that controls the servers: its arguments are "postgresql" or "redis", and "stop", "start" or "crash"
set -euo pipefail

missing=()
binaries=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1 || true)
libraries=$(ldconfig -p)
[ -x "$binaries/initdb" ] || missing+=(postgresql)
command -v redis-server >/dev/null || missing+=(redis-server)
grep -q libhiredis.so.0.14 <<<"$libraries" || missing+=(libhiredis0.14)
grep -q libpq.so.5 <<<"$libraries" || missing+=(libpq5)
grep -q libsqlite3.so.0 <<<"$libraries" || missing+=(libsqlite3-0)
if [ ${#missing[@]} -gt 0 ]; then
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  binaries=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
fi

# A short name, because the path of a socket has at most 107 characters.
work=$(mktemp -d /tmp/afdb.XXXXXX)
chmod 755 "$work"
mkdir "$work/data" "$work/s"
mkdir -m 700 "$work/files"
as=()
if [ "$(id -u)" -eq 0 ]; then
  # PostgreSQL does not run as root.
  as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
  chown postgres "$work/data" "$work/s"
fi
chmod 700 "$work/data"

cat > "$work/control" <<CONTROL
#!/usr/bin/env bash
set -euo pipefail
# One argument per word. The prefix is empty unless the user is root.
as=(${as[@]+"${as[@]}"})
case "\$1 \$2" in
  "postgresql start")
    \${as[@]+"\${as[@]}"} "$binaries/pg_ctl" -D "$work/data" -w -t 60 -l "$work/data/log" -o "-c listen_addresses='' \
      -c unix_socket_directories=$work/s -c fsync=\${FSYNC:-off} -c full_page_writes=off -c max_connections=400" start >/dev/null ;;
  "postgresql stop") \${as[@]+"\${as[@]}"} "$binaries/pg_ctl" -D "$work/data" -w -m fast stop >/dev/null ;;
  "postgresql crash") kill -QUIT "\$(head -1 "$work/data/postmaster.pid")" && while [ -e "$work/data/postmaster.pid" ]; do sleep 0.05; done ;;
  "redis start")
    redis-server --port 0 --unixsocket "$work/r" --unixsocketperm 700 --save '' --appendonly yes --appendfsync always \
      --daemonize yes --pidfile "$work/redis.pid" --dir "$work" --logfile "$work/redis.log" >/dev/null
    until redis-cli -s "$work/r" ping 2>/dev/null | grep -q PONG; do sleep 0.05; done ;;
  "redis stop" | "redis crash")
    process=\$(cat "$work/redis.pid")
    if [ "\$2" = crash ]; then kill -KILL "\$process"; rm -f "$work/redis.pid"; else kill -TERM "\$process"; fi
    while kill -0 "\$process" 2>/dev/null; do sleep 0.05; done ;;
esac
CONTROL
chmod 755 "$work/control"

cleanup() {
  [ ! -e "$work/data/postmaster.pid" ] || "$work/control" postgresql stop || true
  [ ! -e "$work/redis.pid" ] || "$work/control" redis stop || true
  rm -rf "$work"
}
trap cleanup EXIT

# The files belong to the database's user, and no other user can read them.
(cd / && ${as[@]+"${as[@]}"} "$binaries/initdb" -D "$work/data" -U authflow -A trust --no-sync -E UTF8 --locale=C >/dev/null)
"$work/control" postgresql start
"$work/control" redis start

export AUTHFLOW_POSTGRESQL="host=$work/s user=authflow dbname=postgres"
export AUTHFLOW_REDIS="unix:$work/r"
export AUTHFLOW_SQLITE="$work/files"
export AUTHFLOW_DATABASES="$work/control"
"$@"
