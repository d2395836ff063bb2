#!/usr/bin/env bash
# Runs a command together with an idpyoidc provider, a Python implementation of OpenID Connect (PyPI).
#
#   Tests/Interop/idpyoidc.sh COMMAND [ARGUMENT ...]
#
# Installs idpyoidc, Flask and joserfc into a separate directory, starts idpyoidc_provider.py on a free port of 127.0.0.1, runs the command, and
# stops the provider. The command's environment contains:
#   AUTHFLOW_IDPYOIDC_ISSUER    the issuer
#   AUTHFLOW_IDPYOIDC_REDIRECT  the redirect URI of the client authflow
#   AUTHFLOW_IDPYOIDC_KEY       the client's private key, for its authentication at the pushed authorization request and token endpoints
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/../../.ci/python-environment" interop-python idpyoidc==5.0.0 flask==3.1.3 joserfc==1.6.5)
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
read -r port redirect_port < <("$here/../ports.py" 2)
export AUTHFLOW_IDPYOIDC_ISSUER=http://127.0.0.1:$port AUTHFLOW_IDPYOIDC_REDIRECT=http://127.0.0.1:$redirect_port/callback
export AUTHFLOW_IDPYOIDC_KEY=$work/client.json
(umask 077 && rnbyc -j -g EC256 -k interop-client -a ES256 >"$AUTHFLOW_IDPYOIDC_KEY")
"$python/bin/python" "$here/idpyoidc_provider.py" "$port" "$AUTHFLOW_IDPYOIDC_REDIRECT" "$AUTHFLOW_IDPYOIDC_KEY" "$work" \
  >"$work/log" 2>&1 & server=$!
for _ in $(seq 200); do
  curl --silent --fail --output /dev/null "$AUTHFLOW_IDPYOIDC_ISSUER/.well-known/openid-configuration" && break
  kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
  sleep 0.1
done
status=0
"$@" || status=$?
[ $status -eq 0 ] || tail -20 "$work/log" >&2
exit $status
