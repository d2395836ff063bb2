#!/usr/bin/env bash
# Runs a command together with SoftHSM, a software PKCS #11 token (Debian packages softhsm2 and opensc).
#
#   Tests/Interop/softhsm.sh COMMAND [ARGUMENT ...]
#
# Creates a token with non-exportable keys, runs the command, and removes the token. The command's environment contains:
#   AUTHFLOW_PKCS11_MODULE  the token's library
#   AUTHFLOW_PKCS11_PIN     the PIN of the token "AuthFlow", whose keys are "signing" (P-256), "rsa" (RSA), "large" (P-384),
#                          "short" (RSA with 1024 bits) and "twin" (two keys), and whose secret key is "sessions"
#   AUTHFLOW_PKCS11_FOLDER  a directory for the files of tests
# A second token, "Fragile", has the PIN 0000 and no keys. It is used to test wrong PINs.
set -euo pipefail
missing=()
command -v softhsm2-util >/dev/null || missing+=(softhsm2)
command -v pkcs11-tool >/dev/null || missing+=(opensc)
if [ ${#missing[@]} -gt 0 ]; then
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tokens"
export SOFTHSM2_CONF=$work/softhsm2.conf AUTHFLOW_PKCS11_FOLDER=$work
export AUTHFLOW_PKCS11_MODULE=/usr/lib/softhsm/libsofthsm2.so AUTHFLOW_PKCS11_PIN=123456
printf 'directories.tokendir = %s/tokens\nobjectstore.backend = file\nlog.level = ERROR\n' "$work" >"$SOFTHSM2_CONF"
{
  softhsm2-util --init-token --free --label AuthFlow --pin "$AUTHFLOW_PKCS11_PIN" --so-pin 12345678
  softhsm2-util --init-token --free --label Fragile --pin 0000 --so-pin 12345678
  make_key() {
    pkcs11-tool --module "$AUTHFLOW_PKCS11_MODULE" --token-label AuthFlow --login --pin "$AUTHFLOW_PKCS11_PIN" \
      --keypairgen --key-type "$1" --label "$2" --id "$3"
  }
  make_key EC:prime256v1 signing 01
  make_key rsa:2048 rsa 02
  make_key EC:secp384r1 large 03
  make_key rsa:1024 short 05
  make_key EC:prime256v1 twin 06
  make_key EC:prime256v1 twin 07
  pkcs11-tool --module "$AUTHFLOW_PKCS11_MODULE" --token-label AuthFlow --login --pin "$AUTHFLOW_PKCS11_PIN" \
    --keygen --key-type GENERIC:32 --usage-sign --sensitive --label sessions --id 04
} >/dev/null 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
"$@"
