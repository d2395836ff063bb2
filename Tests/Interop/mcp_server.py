"""An MCP server and its authorization server, made with the official Python SDK, for tests of the client.

    mcp_server.py PORT JOURNAL [ACCESS_TOKEN_SECONDS]

Access tokens are short-lived, refresh tokens are single-use, and a reused one revokes all tokens of its sign-in. Each event is a line of the
journal: "register", "authorize", "code", "refresh", "reuse".
"""
import secrets
import sys
import time

from mcp.server.auth.provider import (
    AccessToken, AuthorizationCode, AuthorizationParams, RefreshToken, TokenError, construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken

PORT, JOURNAL = int(sys.argv[1]), open(sys.argv[2], "a", buffering=1)
LIFE = int(sys.argv[3]) if len(sys.argv) > 3 else 3600
BASE = f"http://127.0.0.1:{PORT}"


class Provider:
    def __init__(self):
        self.clients, self.codes, self.access, self.refresh, self.spent = {}, {}, {}, {}, {}
        self.families = {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client):
        JOURNAL.write("register\n")
        self.clients[client.client_id] = client

    async def authorize(self, client, params: AuthorizationParams):
        JOURNAL.write(f"authorize {' '.join(params.scopes or [])}\n")
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code, client_id=client.client_id, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, expires_at=time.time() + 60,
            scopes=params.scopes or ["read"], code_challenge=params.code_challenge, resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, iss=BASE)

    async def load_authorization_code(self, client, code):
        found = self.codes.get(code)
        return found if found and found.client_id == client.client_id else None

    def tokens(self, client, scopes, resource, family):
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.access[access] = AccessToken(
            token=access, client_id=client.client_id, scopes=scopes, expires_at=int(time.time()) + LIFE, resource=resource,
        )
        self.refresh[refresh] = (RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes), resource, family)
        self.families.setdefault(family, set()).update([access, refresh])
        return OAuthToken(
            access_token=access, token_type="Bearer", expires_in=LIFE, scope=" ".join(scopes), refresh_token=refresh,
        )

    async def exchange_authorization_code(self, client, code):
        JOURNAL.write("code\n")
        self.codes.pop(code.code, None)
        return self.tokens(client, code.scopes, code.resource, secrets.token_urlsafe(8))

    async def load_refresh_token(self, client, token):
        if token in self.spent:
            JOURNAL.write("reuse\n")
            for other in self.families.pop(self.spent[token], ()):
                self.access.pop(other, None)
                self.refresh.pop(other, None)
            return None
        found = self.refresh.get(token)
        return found[0] if found and found[0].client_id == client.client_id else None

    async def exchange_refresh_token(self, client, token, scopes):
        entry = self.refresh.pop(token.token, None)
        if entry is None:
            raise TokenError("invalid_grant", "spent")
        JOURNAL.write("refresh\n")
        _, resource, family = entry
        self.spent[token.token] = family
        return self.tokens(client, scopes or token.scopes, resource, family)

    async def load_access_token(self, token):
        found = self.access.get(token)
        return found if found and found.expires_at > time.time() else None

    async def revoke_token(self, token):
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)


server = MCPServer(
    "demo", auth_server_provider=Provider(),
    auth=AuthSettings(
        issuer_url=BASE, resource_server_url=BASE + "/mcp", required_scopes=["read"], validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(
            enabled=True, default_scopes=["read"], valid_scopes=["read", "write"]
        ),
        revocation_options=RevocationOptions(enabled=True),
    ),
)


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


server.run(transport="streamable-http", host="127.0.0.1", port=PORT)
