#!/usr/bin/env python3
"""Terminates TLS in front of a server on loopback, and forwards the client certificate in a header field, as Apache does.

Usage: tls_proxy.py PORT UPSTREAM_PORT CERTIFICATE KEY CLIENT_AUTHORITIES
"""

import socket
import ssl
import sys
import threading

port, upstream_port = int(sys.argv[1]), int(sys.argv[2])
certificate, key, authorities = sys.argv[3:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
context.load_verify_locations(authorities)
context.verify_mode = ssl.CERT_OPTIONAL


def head_of(connection):
    data = b""
    while b"\r\n\r\n" not in data and len(data) < 65536:
        more = connection.recv(65536)
        if not more:
            break
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.split(b"\r\n"), rest


def serve(accepted):
    try:
        with context.wrap_socket(accepted, server_side=True) as client, socket.create_connection(
            ("127.0.0.1", upstream_port)
        ) as server:
            lines, body = head_of(client)
            # A header sent by the client is not trusted.
            lines = [line for line in lines if not line.lower().startswith((b"x-client-cert:", b"connection:"))]
            shown = client.getpeercert(True)
            if shown:
                text = ssl.DER_cert_to_PEM_cert(shown).strip().replace("\n", " ")
                lines.append(b"X-Client-Cert: " + text.encode())
            length = next((int(l.split(b":")[1]) for l in lines if l.lower().startswith(b"content-length:")), 0)
            server.sendall(b"\r\n".join(lines + [b"Connection: close"]) + b"\r\n\r\n" + body)
            length -= len(body)
            while length > 0:
                more = client.recv(65536)
                if not more:
                    return
                server.sendall(more)
                length -= len(more)
            while more := server.recv(65536):
                client.sendall(more)
    except (OSError, ssl.SSLError):
        pass


listener = socket.create_server(("127.0.0.1", port))
while True:
    accepted, _ = listener.accept()
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
