#!/usr/bin/env bash
# Removes only the files that install.sh has installed:
#   Packaging/uninstall.sh DESTDIR PREFIX
set -euo pipefail
root=$1$2
list=$root/share/authflow/installed-files
[ -f "$list" ] || { echo "uninstall.sh: nothing is installed in $root: there is no $list" >&2; exit 1; }
# The list is removed last, so that an interrupted uninstall can be repeated.
while IFS= read -r file; do
  [ "$root/$file" = "$list" ] || rm -f "$root/$file"
done <"$list"
rm "$list"
# The directory remains if it contains other files.
rmdir "$root/share/authflow" 2>/dev/null || true
