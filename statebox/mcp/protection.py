"""Where a boundary belongs in a server, and where none can be put.

Only the SDK's public API is used: the list `middleware`, outermost first.
"""

from __future__ import annotations

from typing import Any, Final, Unpack, cast

from mcp.server import MCPServer, Server
from mcp.server.context import ServerMiddleware
from mcp.server.request_state import RequestStateBoundary

from statebox.box import Statebox
from statebox.mcp.boundary import BoundaryOptions, StateboxBoundary

_SDK_PACKAGE: Final = "mcp"


def protect(
    server: MCPServer[Any] | Server[Any],
    box: Statebox,
    **options: Unpack[BoundaryOptions],
) -> None:
    """Put a `StateboxBoundary` into a server.

    On an `MCPServer` it takes the place of the SDK's own boundary, so that no state is sealed
    twice; a `request_state_security=` given to that server is then without effect. On a low-level
    `Server` it stands inside the SDK's own middleware and outside of yours. Call it once, before
    the server serves.

    Args:
        server: An `MCPServer`, or a low-level `Server`.
        box: Seals and opens.
        options: `principal`, `ttl`, `guard`, `single_use`, `remember`, `wait`, `accept_sdk_keys`,
            `sdk_audience` and `sdk_principal`, as for `StateboxBoundary`.

    Raises:
        TypeError: The server is of another kind. A `FastMCP` takes the codec instead, and with it
            `statebox.mcp.fastmcp.SealedStateOnly`.
        ValueError: The server has a StateboxBoundary already, or its own boundary is not there
            exactly once.
    """
    # The declared types are a promise that a FastMCP without a type checker breaks.
    if not isinstance(cast("object", server), MCPServer | Server):
        raise TypeError(_unsupported(server))
    if options.get("accept_sdk_keys") is not None and options.get("sdk_audience") is None:
        options["sdk_audience"] = server.name  # as the SDK has it, unless it was given another
    boundary = StateboxBoundary(box, **options)
    chain = server.middleware
    if any(isinstance(middleware, StateboxBoundary) for middleware in chain):
        raise ValueError(
            "this server has a StateboxBoundary already, and a state must not be sealed twice; "
            "call protect() once, or leave the boundary out of middleware="
        )
    places = [i for i, each in enumerate(chain) if isinstance(each, RequestStateBoundary)]
    if len(places) == 1:
        chain[places[0]] = boundary
    elif places:
        raise ValueError(
            f"this server has {len(places)} of the SDK's RequestStateBoundary, where a state "
            "would be sealed twice; take all but one out of its middleware"
        )
    elif isinstance(server, MCPServer):
        raise ValueError(
            "this MCPServer has no RequestStateBoundary to replace: its middleware was changed; "
            "put StateboxBoundary(box) where the boundary was, outside of what reads a state"
        )
    else:
        chain.insert(_inside_of_the_sdk(chain), boundary)


def _inside_of_the_sdk(chain: list[ServerMiddleware[Any]]) -> int:
    """Find the place after the middleware that the SDK puts first, as its spans are."""
    for place, middleware in enumerate(chain):
        if type(middleware).__module__.partition(".")[0] != _SDK_PACKAGE:
            return place
    return len(chain)


def _unsupported(server: object) -> str:
    packages = {cls.__module__.partition(".")[0] for cls in type(server).__mro__}
    if "fastmcp" in packages:
        return (
            "FastMCP has no public place for a boundary; give it the codec instead: "
            "FastMCP(request_state_security=request_state_security(keyring, audience=...), "
            "middleware=[SealedStateOnly()]), the latter out of statebox.mcp.fastmcp"
        )
    return f"protect() takes an MCPServer or a low-level Server, not a {type(server).__name__}"
