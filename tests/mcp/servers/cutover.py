"""The same servers before and after a move off the SDK's codec."""

from collections.abc import Callable

from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from starlette.applications import Starlette

from statebox import Keyring, Statebox
from statebox.mcp import StateboxBoundary, protect, request_state_security
from statebox.mcp.cutover import SDKKeys
from statebox.mcp.fastmcp import SealedStateOnly
from tests.mcp.servers.kinds import (
    AUTH,
    FASTMCP_AUTH,
    Users,
    fastmcp_server,
    low_level_server,
    mcp_server,
)

NAME = "refunds"
"""What the servers are called, and so the audience of what the SDK seals."""


def mcp_server_before(keys: SDKKeys) -> Starlette:
    """An MCPServer with the SDK's codec."""
    security = RequestStateSecurity(keys=keys)
    server = mcp_server(token_verifier=Users(), auth=AUTH, request_state_security=security)
    return server.streamable_http_app()


def fastmcp_before(keys: SDKKeys) -> Starlette:
    """A FastMCP with the SDK's codec."""
    return fastmcp_server(RequestStateSecurity(keys=keys), auth=FASTMCP_AUTH).http_app()


def low_level_before(keys: SDKKeys) -> Starlette:
    """A low-level Server with the SDK's boundary."""
    server = low_level_server()
    security = RequestStateSecurity(keys=keys)
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    return server.streamable_http_app(auth=AUTH, token_verifier=Users())


def codec_after(ring: Keyring, keys: SDKKeys | None) -> Starlette:
    """An MCPServer with statebox as the SDK's codec."""
    security = request_state_security(ring, audience=NAME, accept_sdk_keys=keys)
    server = mcp_server(token_verifier=Users(), auth=AUTH, request_state_security=security)
    return server.streamable_http_app()


def fastmcp_after(ring: Keyring, keys: SDKKeys | None) -> Starlette:
    """A FastMCP with statebox as the SDK's codec."""
    security = request_state_security(ring, audience=NAME, accept_sdk_keys=keys)
    server = fastmcp_server(security, auth=FASTMCP_AUTH, middleware=[SealedStateOnly()])
    return server.http_app()


def protected_after(ring: Keyring, keys: SDKKeys | None) -> Starlette:
    """An MCPServer with statebox's boundary, under an audience of its own."""
    server = mcp_server(token_verifier=Users(), auth=AUTH)
    protect(server, Statebox(ring, audience="billing"), accept_sdk_keys=keys)
    return server.streamable_http_app()


def low_level_after(ring: Keyring, keys: SDKKeys | None) -> Starlette:
    """A low-level Server with statebox's boundary."""
    server = low_level_server()
    box = Statebox(ring, audience="billing")
    audience = None if keys is None else NAME
    server.middleware.append(StateboxBoundary(box, accept_sdk_keys=keys, sdk_audience=audience))
    return server.streamable_http_app(auth=AUTH, token_verifier=Users())


Before = Callable[[SDKKeys], Starlette]
After = Callable[[Keyring, SDKKeys | None], Starlette]

MOVES: list[tuple[Before, After]] = [
    (mcp_server_before, codec_after),
    (mcp_server_before, protected_after),
    (fastmcp_before, fastmcp_after),
    (low_level_before, low_level_after),
]
