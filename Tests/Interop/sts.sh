#!/usr/bin/env bash
# Exchanges a token from the tool for cloud credentials at moto's emulation of AWS STS (PyPI), with the AWS CLI.
#
#   Tests/Interop/glewlwyd.sh Tests/Interop/sts.sh PATH/TO/authflow
#
# Glewlwyd issues the token under the client credentials grant. No request leaves this machine.
set -euo pipefail
authflow=$1
here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/../../.ci/python-environment" interop-cloud "moto[server,sts]==5.2.1" "awscli==1.45.11")
source "$here/../processes.sh"
port=$(free_port)
"$python/bin/moto_server" -H 127.0.0.1 -p "$port" >"$folder/log" 2>&1 & processes+=($!)
until_ready $! "$folder/log" listens "$port"
cat >"$folder/authflow.json" <<JSON
{"profiles": {"robot": {
  "provider": "oidc", "issuer": "${AUTHFLOW_GLEWLWYD_ISSUER/oidc/fapi}", "client_id": "authflow-interop-key",
  "client_key": "$AUTHFLOW_GLEWLWYD_KEY", "client_assertion_audience": "endpoint",
  "flow": "client_credentials", "scopes": ["profile"], "store": {"name": "file", "directory": "$folder/store"}
}}}
JSON
export AWS_CONFIG_FILE=$folder/config AWS_SHARED_CREDENTIALS_FILE=$folder/none AWS_EC2_METADATA_DISABLED=true AWS_DEFAULT_REGION=eu-central-1
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE
# The AWS CLI caches credentials in the home directory. They must not be found by another run, or mixed with the user's.
aws() { HOME=$folder "$python/bin/aws" --endpoint-url "http://127.0.0.1:$port" "$@"; }
role=arn:aws:iam::123456789012:role/robot

# Checks that a command's output matches, or prints the output.
expect() { # pattern text
  [[ $2 =~ $1 ]] || { echo "sts.sh: expected $1, and got: $2" >&2; tail -20 "$folder/log" >&2; exit 1; }
}

# Explicitly: the token is an argument.
token=$("$authflow" token --config "$folder/authflow.json")
expect '^ASIA[A-Z0-9]+$' "$(aws sts assume-role-with-web-identity --role-arn "$role" --role-session-name robot \
  --query Credentials.AccessKeyId --output text --web-identity-token "$token")"

# As in a cluster: the token is in a file, and the AWS CLI exchanges it automatically.
(umask 077 && "$authflow" token --config "$folder/authflow.json" >"$folder/token")
printf '[default]\nrole_arn = %s\nweb_identity_token_file = %s/token\nrole_session_name = robot\nendpoint_url = http://127.0.0.1:%s\n' \
  "$role" "$folder" "$port" >"$AWS_CONFIG_FILE"
expect 'assumed-role/robot/robot$' "$(aws sts get-caller-identity --query Arn --output text)"
echo "a token from authflow was exchanged for the role's credentials, as an argument and from a file"
