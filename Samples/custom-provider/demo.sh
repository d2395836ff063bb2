#!/usr/bin/env bash
# Runs the conformance suite on this package's adapter, and signs in with the adapter at an emulator:
#   demo.sh [PATH/TO/custom-provider]
# Without a path, it builds this package first.
set -euo pipefail
sample=${1:+$(realpath "$1")}
cd "$(dirname "$0")"
if [ -z "$sample" ]; then
  swift build
  sample=$(swift build --show-bin-path)/custom-provider
fi
said=$(PASSWORD=wonderland "$sample")
echo "$said"
[ "$said" = $'The adapter conforms.\nSigned in as Alice Example with the scopes profile offline_access' ]
[ "$(grep -cvE '^\s*(//.*)?$' Sources/custom-provider/ForgeProvider.swift)" -le 80 ]
