#!/usr/bin/env bash
# Builds this package, runs the conformance suite on its adapter and signs in with it at an emulator.
set -euo pipefail
cd "$(dirname "$0")"
swift build ${SCRATCH:+--scratch-path "$SCRATCH"}
said=$(PASSWORD=wonderland "$(swift build ${SCRATCH:+--scratch-path "$SCRATCH"} --show-bin-path)/custom-provider")
echo "$said"
[ "$said" = $'The adapter conforms.\nSigned in as Alice Example with the scopes profile offline_access' ]
[ "$(grep -cvE '^\s*(//.*)?$' Sources/custom-provider/ForgeProvider.swift)" -le 80 ]
