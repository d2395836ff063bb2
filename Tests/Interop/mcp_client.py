#!/usr/bin/env python3
"""Calls the tool of Samples/servers/mcp-server with the client of the Python SDK (mcp, PyPI), which registers itself and signs in.

    mcp_client.py ADDRESS
"""
import asyncio, importlib.machinery, pathlib, sys, urllib.parse

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

sys.dont_write_bytecode = True
PAGES = pathlib.Path(__file__).parents[2] / "Samples" / "custom-user-agent" / "sign-in.py"
sign_in = importlib.machinery.SourceFileLoader("sign_in", str(PAGES)).load_module().sign_in
REDIRECT = "http://127.0.0.1:8400/callback"


class Memory:
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def call(address, mode):
    redirects = []

    async def visit(url):
        redirects.append(await asyncio.to_thread(sign_in, url))

    async def answer():
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(redirects[-1]).query))
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    metadata = OAuthClientMetadata(redirect_uris=[REDIRECT], client_name="Python SDK", token_endpoint_auth_method="none")
    auth = OAuthClientProvider(address, metadata, Memory(), visit, answer)
    async with httpx2.AsyncClient(auth=auth, timeout=30) as http:
        async with Client(streamable_http_client(address, http_client=http), mode=mode) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            text = (await client.call_tool("whoami", {})).content[0].text
            if tools != ["whoami"] or not text.startswith("248289761001, by "):
                sys.exit(f"mcp_client.py: {tools} {text}")
            print(f"ok   {mode}, revision {client.protocol_version}: {text}", flush=True)


for mode in ["legacy", "auto"]:
    asyncio.run(call(sys.argv[1], mode))
