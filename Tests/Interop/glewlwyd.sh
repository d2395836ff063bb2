#!/usr/bin/env bash
# Runs a command together with Glewlwyd, a third-party OpenID provider (Debian package glewlwyd).
#
#   Tests/Interop/glewlwyd.sh COMMAND [ARGUMENT ...]
#
# Installs missing packages, starts Glewlwyd on a free port of 127.0.0.1 with a separate database, seeds a user (alice,
# wonderland) and a public client, runs the command, and stops Glewlwyd. The command's environment contains:
#   AUTHFLOW_GLEWLWYD_ISSUER    the issuer
#   AUTHFLOW_GLEWLWYD_REDIRECT  the redirect URI of the client authflow-interop
#   AUTHFLOW_GLEWLWYD_KEY       the private key of the client authflow-interop-key, at the issuer .../api/fapi, which accepts
#                               only pushed requests and requires nonces in DPoP proofs
#   AUTHFLOW_GLEWLWYD_DECRYPTION_KEYS  the private keys of the clients authflow-interop-ALG, whose tokens are encrypted with ALG
#   AUTHFLOW_GLEWLWYD_TLS_ISSUER     an issuer that requests client certificates itself
#   AUTHFLOW_GLEWLWYD_HEADER_ISSUER  an issuer behind a proxy that requests client certificates
#   AUTHFLOW_GLEWLWYD_CERTIFICATES   a directory with their authority (ca.pem) and the certificates of the clients authflow-interop-tls
#                                    (client.pem, client.key) and authflow-interop-self-signed (self.pem, self.key)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

missing=()
command -v glewlwyd >/dev/null || missing+=(glewlwyd)
command -v rnbyc >/dev/null || missing+=(rnbyc)
command -v openssl >/dev/null || missing+=(openssl)
command -v sqlite3 >/dev/null || missing+=(sqlite3)
[ -e /usr/share/javascript/jquery/jquery.min.js ] || missing+=(libjs-jquery)
if [ ${#missing[@]} -gt 0 ]; then
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

source "$here/../processes.sh"

# Free ports for the providers, and for the redirect URI, which this provider compares exactly.
read -r port tls_port header_port proxy_port redirect_port < <("$here/../ports.py" 5)
origin=http://127.0.0.1:$port
export AUTHFLOW_GLEWLWYD_ISSUER=$origin/api/oidc
export AUTHFLOW_GLEWLWYD_TLS_ISSUER=https://127.0.0.1:$tls_port/api/oidc
export AUTHFLOW_GLEWLWYD_HEADER_ISSUER=https://127.0.0.1:$proxy_port/api/oidc
export AUTHFLOW_GLEWLWYD_REDIRECT=http://127.0.0.1:$redirect_port/callback

# Starts a Glewlwyd with a separate database.
#   start NAME PORT ORIGIN [CONFIGURATION]
start() {
  local place=$folder/$1 port=$2 origin=$3 more=${4:-}
  mkdir "$place"
  # The packaged web application has dangling links in place of its configuration and jQuery.
  cp -r /usr/share/glewlwyd/webapp "$place/webapp"
  rm -rf "$place/webapp/config.json" "$place/webapp/js/jquery.min.js"
  cp /usr/share/javascript/jquery/jquery.min.js "$place/webapp/js/"
  sed "s#http://localhost:4593#$origin#g" /etc/glewlwyd/config-2.7.json/config.json >"$place/webapp/config.json"
  local init=/usr/share/doc/glewlwyd/database/init.sqlite3.sql
  { [ -f "$init" ] && cat "$init" || zcat "$init.gz"; } | sqlite3 "$place/glewlwyd.db"
  cat >"$place/glewlwyd.conf" <<CONF
port=$port
bind_address="127.0.0.1"
external_url="$origin"
login_url="login.html"
api_prefix="api"
static_files_path="$place/webapp"
static_files_mime_types = (
  { extension = ".html" mime_type = "text/html" },
  { extension = ".css" mime_type = "text/css" },
  { extension = ".js" mime_type = "application/javascript" },
  { extension = ".json" mime_type = "application/json" },
  { extension = "*" mime_type = "application/octet-stream" }
)
log_mode="file"
log_level="WARNING"
log_file="$place/glewlwyd.log"
cookie_secure=0
session_key="GLEWLWYD2_SESSION_ID"
admin_scope="g_admin"
profile_scope="g_profile"
user_module_path="/usr/lib/glewlwyd/user"
client_module_path="/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="/usr/lib/glewlwyd/scheme"
plugin_module_path="/usr/lib/glewlwyd/plugin"
hash_algorithm="SHA512"
database = { type = "sqlite3" path = "$place/glewlwyd.db" };
$more
CONF
  glewlwyd --config-file="$place/glewlwyd.conf" >"$place/output" 2>&1 &
  processes+=($!)
}

export AUTHFLOW_GLEWLWYD_CERTIFICATES=$folder/certificates
mkdir "$AUTHFLOW_GLEWLWYD_CERTIFICATES"
(
  cd "$AUTHFLOW_GLEWLWYD_CERTIFICATES"
  umask 077
  key="ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
  openssl req -x509 -newkey $key -subj "/O=AuthFlow/CN=interop authority" -keyout ca.key -out ca.pem
  for name in server client; do
    openssl req -newkey $key -subj "/O=AuthFlow/CN=tls-$name" -keyout $name.key -out $name.csr
    openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out $name.pem \
      -extfile <(echo "subjectAltName=IP:127.0.0.1")
  done
  openssl req -x509 -newkey $key -subj "/O=AuthFlow/CN=self-signed" -keyout self.key -out self.pem
  cat ca.pem self.pem >clients.pem
) 2>/dev/null

start main "$port" "$origin"
start tls "$tls_port" "https://127.0.0.1:$tls_port" "
use_secure_connection=true
secure_connection_key_file=\"$AUTHFLOW_GLEWLWYD_CERTIFICATES/server.key\"
secure_connection_pem_file=\"$AUTHFLOW_GLEWLWYD_CERTIFICATES/server.pem\"
secure_connection_ca_file=\"$AUTHFLOW_GLEWLWYD_CERTIFICATES/ca.pem\""
start header "$header_port" "https://127.0.0.1:$proxy_port"
python3 "$here/tls_proxy.py" "$proxy_port" "$header_port" "$AUTHFLOW_GLEWLWYD_CERTIFICATES/server.pem" \
  "$AUTHFLOW_GLEWLWYD_CERTIFICATES/server.key" "$AUTHFLOW_GLEWLWYD_CERTIFICATES/clients.pem" & processes+=($!)

rnbyc -j -g RSA2048 -k interop-rs256 -a RS256 >"$folder/keys.json"
export AUTHFLOW_GLEWLWYD_KEY=$folder/client.json
export AUTHFLOW_GLEWLWYD_DECRYPTION_KEYS=$folder/decryption.json
(umask 077
  rnbyc -j -g EC256 -k interop-client -a ES256 >"$AUTHFLOW_GLEWLWYD_KEY"
  # The key of each type is used with several algorithms, so it has no "alg".
  rnbyc -j -g RSA2048 -k interop-rsa-enc -g EC256 -k interop-ec-enc |
    python3 -c '
import json, sys
keys = json.load(sys.stdin)["keys"]
for key in keys: key.pop("alg", None)
json.dump({"keys": [key for key in keys if "d" in key]}, sys.stdout)' >"$AUTHFLOW_GLEWLWYD_DECRYPTION_KEYS")
seed() {
  until_ready $! "$folder/main/output" curl -sf --max-time 20 --cacert "$AUTHFLOW_GLEWLWYD_CERTIFICATES/ca.pem" -o "$folder/answer" "$1/config"
  SSL_CERT_FILE=$AUTHFLOW_GLEWLWYD_CERTIFICATES/ca.pem python3 "$here/glewlwyd_seed.py" "$@" && return
  cat "$folder"/*/output "$folder"/*/glewlwyd.log >&2 || true
  exit 1
}
seed "$origin" "$AUTHFLOW_GLEWLWYD_REDIRECT" "$folder/keys.json" "$AUTHFLOW_GLEWLWYD_KEY" "$AUTHFLOW_GLEWLWYD_DECRYPTION_KEYS"
seed "https://127.0.0.1:$tls_port" "$AUTHFLOW_GLEWLWYD_REDIRECT" "$folder/keys.json" TLS "$AUTHFLOW_GLEWLWYD_CERTIFICATES"
seed "https://127.0.0.1:$proxy_port" "$AUTHFLOW_GLEWLWYD_REDIRECT" "$folder/keys.json" header "$AUTHFLOW_GLEWLWYD_CERTIFICATES"
"$@"
