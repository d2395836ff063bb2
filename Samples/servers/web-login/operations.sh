#!/usr/bin/env bash
# Operations on web-login's store, on the databases that Tests/Databases/databases.sh has started:
#
#   operations.sh backup STORE FILE | restore STORE FILE    stop the processes before a restore
#   operations.sh next-tables     migrates the PostgreSQL tables to a later version that earlier versions can still use
#   operations.sh needed-tables   migrates the PostgreSQL tables to a later version that earlier versions cannot use
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
    # The write-ahead log belongs to the database that is replaced. The file is overwritten in place, so that its owner does not change.
    [ -s "$3" ] && [ -f "$database" ] || { echo "operations.sh: $3 is empty, or $database does not exist" >&2; exit 1; }
    rm -f "$database-wal" "$database-shm"
    cat "$3" >"$database" ;;
  next-tables-)
    sql "SET client_min_messages = error; ALTER TABLE authflow.records ADD COLUMN IF NOT EXISTS of_next_version text;
      INSERT INTO authflow.migrations (version, needs) VALUES (1000, 1) ON CONFLICT DO NOTHING" ;;
  needed-tables-) sql "INSERT INTO authflow.migrations (version, needs) VALUES (1001, 1001)" ;;
  *) echo "operations.sh: $*" >&2; exit 2 ;;
esac
