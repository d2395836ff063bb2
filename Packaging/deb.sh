#!/usr/bin/env bash
# Builds a package for Debian and its derivatives, reproducibly from the tool and the commit, and prints its path:
#   Packaging/deb.sh PATH/TO/authflow FOLDER
# The tool must be linked statically with Swift's libraries (make release), because no Debian package has them.
set -euo pipefail
umask 022
tool=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
cd "$(dirname "$0")/.."
fail() { echo "deb.sh: $*" >&2; exit 1; }

dynamic=$(readelf --dynamic --wide "$tool")
needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
if grep -qE '^lib(swift|_?Foundation|dispatch)' <<<"$needed"; then
  fail "$tool needs Swift's libraries at run time; build it with: make release"
fi
# A file beside the program must not replace a library of the system.
if grep -qE '\((RPATH|RUNPATH)\)' <<<"$dynamic"; then
  fail "$tool searches other directories for libraries; build it with: make release"
fi
if grep -qa 'icudt[0-9]' "$tool"; then
  fail "$tool contains Foundation's Unicode data, so a module imports Foundation instead of AuthFlowEssentials"
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
version=$(Packaging/version.sh "$tool")
architecture=$(dpkg --print-architecture)
maintainer=$(git log -1 --format='%an <%ae>')

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
Packaging/install.sh "$tool" "$root" /usr vendor-completions
# dpkg maintains the list of installed files.
rm "$root/usr/share/authflow/installed-files"
documents=$root/usr/share/doc/authflow
mkdir -p "$documents" "$root/DEBIAN" "$work/debian"

# The linked libraries, each with the minimum version that provides the symbols the tool uses.
printf 'Source: authflow\n\nPackage: authflow\nArchitecture: any\nDepends: ${shlibs:Depends}\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/authflow | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || fail "dpkg-shlibdeps found nothing that $tool depends on"
# libcurl is loaded at the first request, which fails without it. Debian 13 uses another package name.
grep -q libcurl4 <<<"$depends" || depends="$depends, libcurl4t64 | libcurl4"
# Loaded or started if installed: the keyring, the QR code, the browser, the parser of AWS's XML responses.
recommends=
for package in libsecret-1-0 libqrencode4 xdg-utils ca-certificates libxml2; do
  grep -qE "(^|, )$package( |,|$)" <<<"$depends" || recommends="$recommends${recommends:+, }$package"
done

Packaging/copyright.py >"$documents/copyright"
{
  printf 'authflow (%s) unstable; urgency=medium\n\n' "$version"
  git log -10 --format='%w(78,2,4)* %s'
  printf '\n -- %s  %s\n' "$maintainer" "$(LC_ALL=C date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$documents/changelog.gz"

cat >"$root/DEBIAN/control" <<CONTROL
Package: authflow
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(find "$root/usr" -type f -printf '%s\n' | awk '{ size += int(($1 + 1023) / 1024) } END { print size }')
Depends: $depends
Recommends: $recommends
Section: net
Priority: optional
Description: sign in with any OAuth 2.0 or OpenID Connect provider
 AuthFlow signs users in from terminals and scripts, and returns only tokens
 that it has validated. A configuration file specifies the provider, the user
 agent and the token store.
 .
  * Authorization code with PKCE, in the browser of the desktop or by pasting
    the redirect; on another device, with a code, where there is no browser.
  * Access tokens for programs, refreshed when needed: one refresh at a time,
    however many processes request a token.
  * Tokens stored in a file, an encrypted file or the keyring of the desktop.
  * Several accounts, sign-out at the provider, DPoP, client registration.
  * Providers that follow OpenID Connect, and GitHub, Okta and ForgeRock.
 .
 A test provider is included: "authflow try" signs in without any configuration.
CONTROL
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

# Timestamps and compression settings affect the bytes of the package, so they are fixed.
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
package=$output/authflow_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >&2
echo "$package"
