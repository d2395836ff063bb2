#!/usr/bin/env bash
# Installs the tool and its files, as `make install` does:
#   Packaging/install.sh PATH/TO/authflow DESTDIR PREFIX [ZSH-DIRECTORY]
# DESTDIR may be empty. It is prepended to every path, for building packages. A list of the installed files is stored for uninstall.sh.
set -euo pipefail
umask 022
tool=$(realpath "$1") destination=$2 prefix=$3 zsh=${4:-site-functions}
here=$(cd "$(dirname "$0")" && pwd)
case $prefix in /*) ;; *) echo "install.sh: PREFIX must start with a slash: $prefix" >&2; exit 2 ;; esac
root=$destination$prefix

# All files are generated before any of them is installed, so that nothing changes if the tool cannot run here.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=$work/files
mkdir -p "$files/bin" "$files/share/authflow" "$files/share/bash-completion/completions" "$files/share/zsh/$zsh" \
  "$files/share/fish/vendor_completions.d"
cp "$tool" "$files/bin/authflow"
# Git and Docker find their credential helpers by these names.
for name in git-credential-authflow docker-credential-authflow; do
  printf '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/authflow" credential %s "$@"\n' "${name%%-*}" >"$files/bin/$name"
done
case $(uname -s) in
  # Paths affect the hashes with which the compiler detects unchanged code, so their section is removed.
  Linux) strip --remove-section=.comment --remove-section=.note --remove-section=.swift_modhash "$files/bin/authflow" ;;
  *) strip "$files/bin/authflow" ;;
esac
"$here/manual.py" "$tool" "$files/share/man/man1" "$prefix"
gzip -9n "$files/share/man/man1/"*.1
# Shells source the completion script instead of executing it, so it needs no shebang line.
"$tool" --generate-completion-script bash | sed '1{/^#!/d;}' >"$files/share/bash-completion/completions/authflow"
"$tool" --generate-completion-script zsh >"$files/share/zsh/$zsh/_authflow"
"$tool" --generate-completion-script fish >"$files/share/fish/vendor_completions.d/authflow.fish"
"$tool" config schema >"$files/share/authflow/authflow.schema.json"
list=share/authflow/installed-files
(cd "$files" && find . -type f | sed 's|^\./||' && echo "$list") | LC_ALL=C sort >"$work/list"
mv "$work/list" "$files/$list"

# Removes the files of an older version, some of which this version may no longer have.
if [ -f "$root/$list" ]; then "$here/uninstall.sh" "$destination" "$prefix"; fi
while IFS= read -r file; do
  mode=644
  case $file in bin/*) mode=755 ;; esac
  mkdir -p "$(dirname "$root/$file")"
  install -m "$mode" "$files/$file" "$root/$file"
done <"$files/$list"
