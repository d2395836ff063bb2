"""An MCP server made with fastmcp, whose authorization server consents automatically. Usage: fastmcp_server.py PORT"""
import sys

from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions, RevocationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider

port = int(sys.argv[1])
server = FastMCP(
    "demo",
    auth=InMemoryOAuthProvider(
        base_url=f"http://127.0.0.1:{port}", required_scopes=["read"],
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"]),
        revocation_options=RevocationOptions(enabled=True),
    ),
)
server.tool(lambda: "hello", name="hello")
server.run(transport="http", host="127.0.0.1", port=port, show_banner=False)
