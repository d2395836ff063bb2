#!/usr/bin/env python3
"""An MCP host: starts the bridge, lists the server's tools and calls the only one.

    host.py AUTHFLOW ADDRESS
"""
import json, subprocess, sys

authflow, address = sys.argv[1:]
bridge = subprocess.Popen([authflow, "mcp", "connect", address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(number, method, **params):
    bridge.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    bridge.stdin.flush()
    answer = json.loads(bridge.stdout.readline())
    if "error" in answer:
        sys.exit(f"{method}: {answer['error']}")
    return answer["result"]


client = {"name": "host", "version": "1"}
agreed = ask(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
print("revision", agreed["protocolVersion"], "of", agreed["serverInfo"]["name"])
bridge.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
print("tools:", ", ".join(tool["name"] for tool in ask(2, "tools/list")["tools"]))
print("whoami:", ask(3, "tools/call", name="whoami", arguments={})["content"][0]["text"])
bridge.stdin.close()
sys.exit(bridge.wait(30))
