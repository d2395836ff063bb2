#!/usr/bin/env bash
# Runs a command together with an emulated TPM 2.0, whose keys are accessible through PKCS #11 (Debian packages swtpm, tpm2-abrmd, tpm2-tools,
# libtpm2-pkcs11-1 and libtpm2-pkcs11-tools).
#
#   Tests/Interop/tpm.sh COMMAND [ARGUMENT ...]
#
# Creates a token with a key that cannot leave the TPM, runs the command, and stops the TPM. The command's environment contains the
# variables that softhsm.sh describes, but only the key "signing", and AUTHFLOW_PKCS11_TPM.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
missing=()
command -v swtpm >/dev/null || missing+=(swtpm)
command -v tpm2_ptool >/dev/null || missing+=(libtpm2-pkcs11-tools)
command -v tpm2_create >/dev/null || missing+=(tpm2-tools)
command -v tpm2-abrmd >/dev/null || missing+=(tpm2-abrmd libtss2-tcti-tabrmd0)
command -v dbus-run-session >/dev/null || missing+=(dbus-daemon)
module=/usr/lib/$(uname -m)-linux-gnu/libtpm2_pkcs11.so.1
[ -e "$module" ] || missing+=(libtpm2-pkcs11-1)
[ -e "/usr/lib/$(uname -m)-linux-gnu/libtss2-tcti-swtpm.so.0" ] || missing+=(libtss2-tcti-swtpm0)
if [ ${#missing[@]} -gt 0 ]; then
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
# The resource manager is reached over a separate message bus.
if [ -z "${AUTHFLOW_PKCS11_TPM:-}" ]; then
  export AUTHFLOW_PKCS11_TPM=1
  exec dbus-run-session -- "$0" "$@" 2> >(grep -v "Failed to set fd limit" >&2)
fi
source "$here/../processes.sh"
mkdir "$folder/state" "$folder/store"
# The library uses the port after the TPM port as the control port.
port=$(PYTHONPATH="$here/.." python3 -c 'import ports; print(ports.free_port(consecutive=2))') control=$((port + 1))
swtpm socket --tpm2 --tpmstate "dir=$folder/state" --server "type=tcp,port=$port,bindaddr=127.0.0.1" \
  --ctrl "type=tcp,port=$control,bindaddr=127.0.0.1" --flags not-need-init,startup-clear >"$folder/swtpm.log" 2>&1 & processes+=($!)
until_ready $! "$folder/swtpm.log" listens "$control"
root=$([ "$(id -u)" -ne 0 ] || echo --allow-root)
tpm2-abrmd --session $root --tcti="swtpm:host=127.0.0.1,port=$port" --flush-all >"$folder/abrmd.log" 2>&1 & processes+=($!)
export TPM2TOOLS_TCTI=tabrmd:bus_type=session TPM2_PKCS11_TCTI=tabrmd:bus_type=session TPM2_PKCS11_STORE=$folder/store
export AUTHFLOW_PKCS11_FOLDER=$folder AUTHFLOW_PKCS11_MODULE=$module AUTHFLOW_PKCS11_PIN=123456
until_ready $! "$folder/abrmd.log" tpm2_getrandom 1 >/dev/null
{
  tpm2_ptool init --path "$folder/store"
  tpm2_ptool addtoken --pid 1 --label AuthFlow --userpin "$AUTHFLOW_PKCS11_PIN" --sopin 12345678 --path "$folder/store"
  tpm2_ptool addkey --algorithm ecc256 --label AuthFlow --key-label signing --userpin "$AUTHFLOW_PKCS11_PIN" --path "$folder/store"
} >"$folder/log" 2>&1 || { cat "$folder/log" "$folder"/*.log >&2; exit 1; }
"$@"
