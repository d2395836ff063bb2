#!/usr/bin/env bash
# Makes real programs request credentials from the tool: kubectl, git, skopeo with a registry, and the AWS CLI.
#
#   Tests/Interop/helpers.sh PATH/TO/authflow
#
# Installs missing packages. All servers run on this machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
missing=()
command -v kubectl >/dev/null || missing+=(kubernetes-client)
command -v skopeo >/dev/null || missing+=(skopeo)
command -v docker-registry >/dev/null || missing+=(docker-registry)
command -v git >/dev/null || missing+=(git)
command -v openssl >/dev/null || missing+=(openssl)
if [ ${#missing[@]} -gt 0 ]; then
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
cloud=$("$here/../../.ci/python-environment" interop-cloud "moto[server,sts]==5.2.1" "awscli==1.45.11")
exec python3 "$here/helpers.py" "$(realpath "$1")" "$cloud/bin"
