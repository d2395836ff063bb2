#!/usr/bin/env bash
# Creates the files of a release, reproducibly from the tool and the commit:
#   Packaging/dist.sh PATH/TO/authflow FOLDER
# the sources, the tool with its manual and completions, the package for Debian, the bill of materials (CycloneDX), and their checksums.
set -euo pipefail
umask 022
tool=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
cd "$(dirname "$0")/.."
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
version=$(Packaging/version.sh "$tool")
git diff --quiet HEAD || { echo "dist.sh: there are uncommitted changes; commit or stash them first" >&2; exit 1; }

git archive --format=tar --prefix="authflow-$version/" HEAD | gzip -9n >"$output/authflow-$version.tar.gz"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=authflow-$version-linux-$(uname -m)
Packaging/install.sh "$tool" "$work/$name" /
tar --create --directory "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu "$name" |
  gzip -9n >"$output/$name.tar.gz"
Packaging/deb.sh "$tool" "$output" >/dev/null
Packaging/sbom.py "$work/$name/bin/authflow" "$version" >"$output/authflow-$version.cdx.json"
cd "$output"
sha256sum -- *.tar.gz *.deb *.json | LC_ALL=C sort -k 2 >SHA256SUMS
cat SHA256SUMS
