#!/usr/bin/env bash
# Prints the version of the package:
#   Packaging/version.sh PATH/TO/authflow
# the tool's own version, or else the date and the hash of the last commit, which sort before every future version.
set -euo pipefail
tool=$(realpath "$1")
cd "$(dirname "$0")/.."
if version=$("$tool" --version 2>/dev/null) && [ -n "$version" ]; then
  version=${version##* }
  # A hyphen would start the Debian revision. A tilde sorts 1.0~beta before 1.0, as intended.
  echo "${version//-/\~}"
else
  TZ=UTC git log -1 --abbrev=10 --date=format-local:%Y%m%d --format='0~git%cd.%h'
fi
