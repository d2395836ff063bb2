#!/usr/bin/env python3
"""Measures the cost of the MCP bridge per call, compared with calling the server directly: bridge.py AUTHFLOW

Both call the emulated server of `authflow dev-idp --resource` over the loopback interface, alternately, with one connection each.
"""
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

BOUND_MS = 1.0
tool = os.path.realpath(sys.argv[1])


def call(number):
    return json.dumps({
        "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "test-tool", "arguments": {"a": "x" * 200}},
    }).encode()


with tempfile.TemporaryDirectory() as folder:
    browser = pathlib.Path(folder, "browser")
    browser.write_text('#!/bin/sh\nexec curl -sL -o /dev/null --max-time 20 "$1"\n')
    browser.chmod(0o700)
    environment = {
        "PATH": os.environ["PATH"], "HOME": folder, "XDG_DATA_HOME": f"{folder}/data", "XDG_CONFIG_HOME": f"{folder}/config",
        "BROWSER": str(browser), "DISPLAY": ":0",
    }
    server = subprocess.Popen(
        [tool, "dev-idp", "--resource"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    )
    bridge = None
    try:
        url = server.stdout.readline().strip()
        bridge = subprocess.Popen(
            [tool, "mcp", "connect", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )

        def ask(message):
            bridge.stdin.write(message + b"\n")
            bridge.stdin.flush()
            while True:
                answer = json.loads(bridge.stdout.readline())
                if "method" not in answer:
                    return answer

        initialize = json.dumps({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
        }).encode()
        assert "result" in ask(initialize)
        bridge.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        assert "result" in ask(call(1))
        token = subprocess.run([tool, "token", url], env=environment, capture_output=True, text=True, check=True).stdout.strip()

        connection = http.client.HTTPConnection(url.split("/")[2])
        connection.connect()
        connection.sock.setsockopt(6, 1, 1)
        fields = {
            "Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        }

        def post(message):
            connection.request("POST", "/mcp", message, fields)
            response = connection.getresponse()
            body = response.read()
            if response.getheader("Mcp-Session-Id"):
                fields["Mcp-Session-Id"] = response.getheader("Mcp-Session-Id")
            return json.loads(body)

        assert "result" in post(initialize)
        assert "result" in post(call(1))
        direct, bridged = [], []
        for number in range(2, 1002):
            for kind, send in ((direct, post), (bridged, ask)):
                begin = time.perf_counter()
                answer = send(call(number))
                kind.append((time.perf_counter() - begin) * 1000)
                assert answer["id"] == number and "result" in answer, answer
        direct, bridged = statistics.median(direct), statistics.median(bridged)
        print(
            f"MCP call: {direct:.2f} ms directly, {bridged:.2f} ms through the bridge, {bridged - direct:.2f} ms more (bound {BOUND_MS} ms)"
        )
        sys.exit(0 if bridged - direct <= BOUND_MS else 1)
    finally:
        for process in (bridge, server):
            if process is not None:
                process.terminate()
                process.wait()
