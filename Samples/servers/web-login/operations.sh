#!/usr/bin/env bash
# What an operator does with the store of web-login, on the databases that Tests/Databases/databases.sh has started:
#
#   operations.sh backup STORE FILE | restore STORE FILE    with the processes stopped for the second
#   operations.sh next-tables     changes the tables of PostgreSQL as a later version would that earlier ones can use
#   operations.sh needed-tables   the same, and earlier ones cannot
set -euo pipefail
# A backup contains tokens.
umask 077
sql() { psql --quiet --no-psqlrc --set ON_ERROR_STOP=1 "$AUTHFLOW_POSTGRESQL" -c "$1"; }
case $1-${2-} in *sqlite*) database=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["path"])' "$2") ;; esac
case $1-${2-} in
  backup-*postgresql*) pg_dump --format=custom --schema=authflow --file="$3" "$AUTHFLOW_POSTGRESQL" ;;
  restore-*postgresql*) pg_restore --clean --if-exists --single-transaction --dbname="$AUTHFLOW_POSTGRESQL" "$3" ;;
  backup-*redis* | restore-*redis*)
    STORE=$2 python3 "$(dirname "$0")/redis_backup.py" "$1" "$3" ;;
  backup-*sqlite*) sqlite3 -readonly "$database" ".backup '$3'" ;;
  restore-*sqlite*)
    # The log is of the database that goes. The file is written over, so that it stays the application's.
    [ -s "$3" ] && [ -f "$database" ] || { echo "operations.sh: $3 is empty, or there is no $database" >&2; exit 1; }
    rm -f "$database-wal" "$database-shm"
    cat "$3" >"$database" ;;
  next-tables-)
    sql "SET client_min_messages = error; ALTER TABLE authflow.records ADD COLUMN IF NOT EXISTS of_next_version text;
      INSERT INTO authflow.migrations (version, needs) VALUES (1000, 1) ON CONFLICT DO NOTHING" ;;
  needed-tables-) sql "INSERT INTO authflow.migrations (version, needs) VALUES (1001, 1001)" ;;
  *) echo "operations.sh: $*" >&2; exit 2 ;;
esac
