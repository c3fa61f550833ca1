"""The four ways in, one function each: a server that any replica with the same ring can stand in for."""

from collections.abc import Callable
from typing import Any

from fastmcp import Context as FastMCPContext
from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from statebox import Keyring, Statebox
from statebox.mcp import StateboxBoundary, protect, request_state_security
from statebox.mcp.fastmcp import SealedStateOnly
from tests.mcp.servers.refund import Round, refund

AUDIENCE = "billing"
ISSUER = "https://login.example"
USERS = {"alice-token": "alice", "bob-token": "bob"}

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"order": {"type": "string"}},
    "required": ["order"],
}
AUTH = AuthSettings(
    issuer_url=AnyHttpUrl(ISSUER),
    resource_server_url=AnyHttpUrl("http://127.0.0.1/mcp"),
    validate_token_resource=False,
)
FASTMCP_AUTH = StaticTokenVerifier(
    {
        token: {"client_id": "app", "sub": user, "iss": ISSUER, "scopes": []}
        for token, user in USERS.items()
    }
)
"""The same users, as FastMCP knows them."""


class Users(TokenVerifier):
    """Two users of one OAuth client, known by their bearer tokens."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Give the identity behind a token."""
        subject = USERS.get(token)
        if subject is None:
            return None
        return AccessToken(
            token=token, client_id="app", scopes=[], subject=subject, claims={"iss": ISSUER}
        )


def mcp_server(run: Round = refund, **options: Any) -> MCPServer[Any]:
    """An MCPServer with the refund tool."""
    server = MCPServer[Any]("refunds", **options)

    async def refund_tool(order: str, ctx: Context) -> str | InputRequiredResult:
        return await run(order, ctx.request_state, ctx.input_responses)

    server.add_tool(refund_tool, name="refund")
    return server


def low_level_server(run: Round = refund) -> Server[Any]:
    """A low-level Server with the refund tool."""

    async def call(
        ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        order = str((params.arguments or {})["order"])
        done = await run(order, params.request_state, params.input_responses)
        if isinstance(done, InputRequiredResult):
            return done
        return CallToolResult(content=[TextContent(text=done)])

    async def tools(
        ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="refund", input_schema=_SCHEMA)])

    return Server[Any]("refunds", on_call_tool=call, on_list_tools=tools)


def codec(keyring: str) -> Starlette:
    """An MCPServer with statebox as the SDK's codec."""
    security = request_state_security(f"file:{keyring}", audience=AUDIENCE)
    server = mcp_server(token_verifier=Users(), auth=AUTH, request_state_security=security)
    return server.streamable_http_app()


def protected(keyring: str) -> Starlette:
    """An MCPServer whose boundary is statebox's."""
    server = mcp_server(token_verifier=Users(), auth=AUTH)
    protect(server, _box(keyring))
    return server.streamable_http_app()


def fastmcp_server(
    security: RequestStateSecurity, run: Round = refund, **options: Any
) -> FastMCP[Any]:
    """A FastMCP with the refund tool."""
    server = FastMCP[Any]("refunds", request_state_security=security, **options)

    async def refund_tool(order: str, ctx: FastMCPContext) -> str | InputRequiredResult:
        return await run(order, ctx.request_state, ctx.input_responses)

    server.tool(refund_tool, name="refund")
    return server


def fastmcp(keyring: str) -> Starlette:
    """A FastMCP with statebox as the SDK's codec."""
    security = request_state_security(keyring, audience=AUDIENCE)
    server = fastmcp_server(security, auth=FASTMCP_AUTH, middleware=[SealedStateOnly()])
    return server.http_app()


def lowlevel(keyring: str) -> Starlette:
    """A low-level Server with statebox's boundary in its middleware."""
    server = low_level_server()
    server.middleware.append(StateboxBoundary(_box(keyring)))
    return server.streamable_http_app(auth=AUTH, token_verifier=Users())


KINDS: dict[str, Callable[[str], Starlette]] = {
    "codec": codec,
    "protected": protected,
    "fastmcp": fastmcp,
    "lowlevel": lowlevel,
}


def _box(keyring: str) -> Statebox:
    return Statebox(Keyring.load(keyring), audience=AUDIENCE)
