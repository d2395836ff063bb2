#!/usr/bin/env python3
"""The host of a bridge ends while the bridge is about to refresh: no refresh token is sent whose response could not be stored.

    bridge_end.py PATH/TO/authflow

A proxy delays the metadata until the bridge has begun to end, and token responses until it must have ended. Then the session must still be valid.
"""
import json, os, pathlib, re, socket, subprocess, sys, tempfile, threading, time

tool = os.path.realpath(sys.argv[1])
delays, tokens, asked = {"metadata": 0, "token": 0}, [], threading.Event()


def request(connection):
    """Reads a request or a response with a Content-Length, or up to the end."""
    data = b""
    while part := connection.recv(65536):
        data += part
        head, separator, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if separator and len(body) >= int(length[1] if length else 0): break
    return data


def serve(connection, port, own):
    with connection, socket.create_connection(("127.0.0.1", port)) as provider:
        data = request(connection)
        if b"/.well-known/oauth-authorization-server" in data[:200]:
            asked.set()
            time.sleep(delays["metadata"])
        data = re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", data).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        provider.sendall(data.replace(str(own).encode(), str(port).encode()))
        answer = request(provider)
        if data.startswith(b"POST /token"):
            tokens.append(time.monotonic())
            time.sleep(delays["token"])
        head, _, body = answer.partition(b"\r\n\r\n")
        head, body = (part.replace(str(port).encode(), str(own).encode()) for part in (head, body))
        connection.sendall(head + b"\r\n\r\n" + body)


def accept(listener, port):
    while True:
        connection = listener.accept()[0]
        threading.Thread(target=serve, args=(connection, port, listener.getsockname()[1]), daemon=True).start()


with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
    provider = subprocess.Popen([tool, "dev-idp", "--resource", "--token-lifetime", "2"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(provider.stdout.readline().strip().split("/")[2].split(":")[1])
        threading.Thread(target=accept, args=(listener, port), daemon=True).start()
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = pathlib.Path(folder, "config.json")
        config.write_text(json.dumps({"profiles": {}, "resource_client": {
            "store": {"name": "file", "directory": "store"},
            "user_agent": {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": [origin]},
        }}))
        options = ["--config", str(config)]
        environment = dict(os.environ, PASSWORD="wonderland", HOME=folder)

        def run(*arguments):
            process = subprocess.run([tool, *arguments, *options], env=environment, capture_output=True, text=True, timeout=60)
            if process.returncode: sys.exit(f"bridge_end: {arguments[0]} ends with {process.returncode}\n{process.stderr}")

        run("login", f"{origin}/mcp")
        time.sleep(3)
        run("token", f"{origin}/mcp")
        time.sleep(3)
        delays.update(metadata=3.5, token=6)
        tokens.clear()
        asked.clear()
        bridge = subprocess.Popen([tool, "mcp", "connect", f"{origin}/mcp", *options], env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, text=True)
        message = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
        bridge.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": message}) + "\n")
        bridge.stdin.flush()
        if not asked.wait(60): sys.exit("bridge_end: the bridge did not request the metadata")
        bridge.stdin.close()
        bridge.wait(60)
        time.sleep(2)
        lost = len(tokens)
        delays.update(metadata=0, token=0)
        time.sleep(6 if lost else 0)
        run("token", f"{origin}/mcp")
        print(f"bridge_end: {lost} refresh tokens were sent after the host had ended; the session is valid")
    finally:
        provider.terminate()
        provider.wait()
