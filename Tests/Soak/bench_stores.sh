#!/usr/bin/env bash
# Prints the cost of each store as a table: bench_stores.sh PATH/TO/session-soak [SESSIONS]
# Tests/Databases/databases.sh starts the databases. The provider is a separate process, which deliberately responds without delay.
set -euo pipefail
program=$1 sessions=${2:-1000}
source "$(dirname "$0")/../processes.sh"
"$program" provider 3600 0 >"$folder/issuer" & processes+=($!)
await http "$folder/issuer" $!
issuer=$(cat "$folder/issuer")
"$program" seed "$issuer" postgresql 1 >/dev/null
echo "| store | fresh | provider only, p50 | refresh, p50 | p99 | added, p50 | waiting, p50 | p99 | refreshes per second, $sessions concurrent |"
echo "|---|---|---|---|---|---|---|---|---|"
for store in memory "$folder/file" "$folder/file.sqlite" postgresql redis; do "$program" bench "$issuer" "$store" "$sessions" | sed "s|$folder/||; s|file.sqlite|sqlite|"; done
echo
echo "| store | sessions | written per second | read, p50 | refresh, p50 | p99 | ended, p50 | memory per session read |"
echo "|---|---|---|---|---|---|---|---|"
for store in "$folder/file.sqlite" postgresql redis; do
  for count in 1000 10000 100000; do "$program" scale "$issuer" "$store" "$count" | sed "s|$folder/file.||"; done
done
