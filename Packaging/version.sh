#!/usr/bin/env bash
# Prints the version of what is packaged:
#   Packaging/version.sh PATH/TO/authflow
# what the tool itself says, or else the day and the hash of the last commit, which sort before every version to come.
set -euo pipefail
tool=$(realpath "$1")
cd "$(dirname "$0")/.."
if version=$("$tool" --version 2>/dev/null) && [ -n "$version" ]; then
  version=${version##* }
  # A hyphen would begin the revision of a distribution; a tilde sorts 1.0~beta before 1.0, as is meant.
  echo "${version//-/\~}"
else
  TZ=UTC git log -1 --abbrev=10 --date=format-local:%Y%m%d --format='0~git%cd.%h'
fi
