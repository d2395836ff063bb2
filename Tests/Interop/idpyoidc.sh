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
source "$here/../processes.sh"
read -r port redirect_port < <("$here/../ports.py" 2)
export AUTHFLOW_IDPYOIDC_ISSUER=http://127.0.0.1:$port AUTHFLOW_IDPYOIDC_REDIRECT=http://127.0.0.1:$redirect_port/callback
export AUTHFLOW_IDPYOIDC_KEY=$folder/client.json
(umask 077 && rnbyc -j -g EC256 -k interop-client -a ES256 >"$AUTHFLOW_IDPYOIDC_KEY")
"$python/bin/python" "$here/idpyoidc_provider.py" "$port" "$AUTHFLOW_IDPYOIDC_REDIRECT" "$AUTHFLOW_IDPYOIDC_KEY" "$folder" \
  >"$folder/log" 2>&1 & processes+=($!)
answers "$AUTHFLOW_IDPYOIDC_ISSUER/.well-known/openid-configuration" $! "$folder/log"
status=0
"$@" || status=$?
[ $status -eq 0 ] || tail -20 "$folder/log" >&2
exit $status
