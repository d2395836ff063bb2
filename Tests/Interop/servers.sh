#!/usr/bin/env bash
# Runs a command together with nginx and tinyproxy (Debian packages), with certificates of every kind.
#
#   Tests/Interop/servers.sh COMMAND [ARGUMENT ...]
#
# Installs missing packages, starts servers on free ports of 127.0.0.1, all with the name id.example.com, runs the
# command, and stops the servers. The command's environment contains:
#   AUTHFLOW_SERVERS  a directory with the certificates and a file "ports", which has a name and a port on each line
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

missing=()
command -v nginx >/dev/null || missing+=(nginx-light)
command -v tinyproxy >/dev/null || missing+=(tinyproxy)
command -v openssl >/dev/null || missing+=(openssl)
if [ ${#missing[@]} -gt 0 ]; then
  sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

source "$here/../processes.sh"

# A certificate authority, and one certificate with each kind of fault.
cd "$folder"
name=id.example.com
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority \
  -keyout authority.key -out authority.pem 2>/dev/null
certificate() { # file name days digest bits
  openssl req -newkey "rsa:$5" -nodes -subj "/CN=$2" -addext "subjectAltName=DNS:$2" -keyout "$1.key" -out "$1.csr" 2>/dev/null
  openssl x509 -req -in "$1.csr" -CA authority.pem -CAkey authority.key -CAcreateserial -copy_extensions copy \
    -days "$3" "-$4" -out "$1.pem" 2>/dev/null
}
certificate good "$name" 2 sha256 2048
certificate expired "$name" -1 sha256 2048
certificate other-name other.example.com 2 sha256 2048
certificate sha1 "$name" 2 sha1 2048
certificate small-key "$name" 2 sha256 1024
certificate client alice 2 sha256 2048
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$name" -addext "subjectAltName=DNS:$name" \
  -keyout self-signed.key -out self-signed.pem 2>/dev/null
# RFC 9110 section 4.3.4 forbids using the Common Name, even if there is no other name.
unnamed() { # file [extension]
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$name" -CA authority.pem -CAkey authority.key \
    ${2:+-addext "$2"} -keyout "$1.key" -out "$1.pem" 2>/dev/null
}
unnamed no-names
unnamed mail-only subjectAltName=email:alice@example.com
cat client.pem client.key >client-both.pem
# Connections are distinguished by the path of their certificate file.
cp client.pem client-again.pem
cp client.pem client-once-more.pem
openssl pkcs8 -topk8 -passout pass:secret -in client.key -out client-locked.key

names=(good expired other-name sha1 small-key self-signed no-names mail-only client plain-proxy password-proxy refusing-proxy cut dead)
read -ra numbers < <("$here/../ports.py" ${#names[@]})
for index in "${!names[@]}"; do echo "${names[index]} ${numbers[index]}"; done >ports
port() { awk -v name="$1" '$1 == name { print $2 }' ports; }

{
  cat <<CONF
worker_processes 1; daemon off; pid $folder/nginx.pid; error_log $folder/nginx.log; events { worker_connections 512; }
http { access_log off; client_body_temp_path $folder/b; proxy_temp_path $folder/p; fastcgi_temp_path $folder/f;
  uwsgi_temp_path $folder/u; scgi_temp_path $folder/s; default_type text/plain;
  # A connection ends with GOAWAY after three requests.
  keepalive_requests 3;
CONF
  for server in good expired other-name sha1 small-key self-signed no-names mail-only client; do
    file=$server
    extra=
    [ "$server" != client ] || { file=good; extra="ssl_client_certificate $folder/authority.pem; ssl_verify_client on;"; }
    cat <<CONF
  server { listen 127.0.0.1:$(port $server) ssl http2; ssl_certificate $folder/$file.pem; ssl_certificate_key $folder/$file.key;
    ssl_ciphers ALL:@SECLEVEL=0; $extra
    location / { return 200 "\$server_protocol \$connection \$ssl_client_s_dn"; } }
CONF
  done
  echo "}"
} >nginx.conf
nginx -p "$folder" -c nginx.conf 2>nginx.start & processes+=($!)

# A proxy resolves the server's name itself, with a separate hosts file.
echo "127.0.0.1 localhost $name" >hosts
proxy() { # name lines
  printf 'Port %s\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\nLogFile "%s/%s.log"\n%b\n' "$(port "$1")" "$folder" "$1" "$2" >"$1.conf"
  unshare --map-root-user --mount bash -c "mount --bind '$folder/hosts' /etc/hosts && exec tinyproxy -d -c '$folder/$1.conf'" \
    >/dev/null 2>&1 & processes+=($!)
}
proxy plain-proxy ''
proxy password-proxy 'BasicAuth alice wonderland'
proxy refusing-proxy 'ConnectPort 1'

# A server whose response ends when the connection is closed, without the TLS closure alert (close_notify).
python3 - "$(port cut)" "$folder" >/dev/null 2>&1 <<'PYTHON' & processes+=($!)
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2] + "/good.pem", sys.argv[2] + "/good.key")
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    plain, _ = listener.accept()
    try:
        connection = context.wrap_socket(plain)
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n{}")
        connection.detach() and None
    except OSError: pass
    finally: plain.close()
PYTHON

for process in 0:good 1:plain-proxy 2:password-proxy 3:refusing-proxy 4:cut; do
  until_ready "${processes[${process%:*}]}" nginx.start listens "$(port "${process#*:}")"
done
cd - >/dev/null
AUTHFLOW_SERVERS=$folder "$@"
