#!/usr/bin/env bash
# Measures the cost of a session for a page: measure.sh PATH/TO/authflow PATH/TO/page-cost [ROUNDS]
# Each round measures the page first without a session and then with one; the result is the median of the ratios.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
authflow=$1 program=$2 rounds=${3:-9}
source "$here/../../../Tests/processes.sh"
port=$(free_port)
origin=http://127.0.0.1:$port
provide "$origin" "$folder/authflow.json"
"$program" "$folder/authflow.json" "$port" >"$folder/program" 2>&1 &
processes+=($!)
answers "$origin/plain" $! "$folder/program"
cookie=$(python3 "$here/../hostile_browser.py" "$origin" --cookie)
rate() { wrk -t1 -c16 -d2s "$@" | awk '/Requests\/sec/ { rate = $2 } /Non-2xx|Socket errors/ { bad = 1 } END { if (bad) exit 1; print rate }'; }
rate "$origin/plain" >"$folder/warm" && rate -H "Cookie: $cookie" "$origin/" >"$folder/warm"
for _ in $(seq "$rounds"); do
  echo "$(rate "$origin/plain") $(rate -H "Cookie: $cookie" "$origin/")"
done >"$folder/rates"
# Both URLs still return the same page.
cmp <(curl -sf "$origin/plain") <(curl -sf -H "Cookie: $cookie" "$origin/") || { echo "the pages are not the same" >&2; exit 1; }
python3 - "$folder/rates" <<'PYTHON'
import statistics, sys
rates = [tuple(map(float, line.split())) for line in open(sys.argv[1])]
ratios = sorted(plain / session for plain, session in rates)
plain, session = (statistics.median(column) for column in zip(*rates))
print(f"A page of 4 KB: {plain:,.0f} requests/s without a session, {session:,.0f} with one; "
      f"{statistics.median(ratios):.2f} times the cost ({ratios[0]:.2f} to {ratios[-1]:.2f}, {len(ratios)} rounds)")
PYTHON
