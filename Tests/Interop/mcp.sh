#!/usr/bin/env bash
# Signs in to third-party MCP servers, and calls their tools through the bridge with the official Python client.
#
#   Tests/Interop/mcp.sh AUTHFLOW [SOAK_SECONDS]
#   Tests/Interop/mcp.sh --install
#
# Installs mcp-authlab, fastmcp and mcp from PyPI into a separate directory. The servers listen on free ports of 127.0.0.1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ "$1" = --install ] || authflow=$(realpath "$1")
seconds=${2:-30}

if ! python3 -c 'import venv, ensurepip' 2>/dev/null || ! command -v curl >/dev/null; then
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends python3-venv curl >/dev/null
fi
packages=$("$here/../../.ci/python-environment" interop-mcp mcp-authlab==0.2.2 "fastmcp-slim[server]==4.1.2" mcp==2.3.0)
[ "$1" != --install ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$packages/bin/python" "$here/mcp_interop.py" "$authflow" "$packages" "$work"
python3 "$here/../Soak/bridges.py" "$authflow" "$packages/bin/python" --seconds "$seconds"
python3 "$here/../Soak/bridges.py" "$authflow" "$packages/bin/python" --seconds "$seconds" --kill
