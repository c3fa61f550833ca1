"""The adapters for the MCP Python SDK: a paused request that any replica of a server can finish.

There are two ways in, and both are one line.

**The codec.** The SDK keeps its own boundary and checks, statebox makes the tokens and keeps the
keys. It works with everything that takes `request_state_security=`, `FastMCP` among it:

    MCPServer("billing", request_state_security=request_state_security(
        "file:keyring.json", audience="billing"))

**The boundary.** statebox's own claims and checks: flows with a deadline and a count of rounds, a
request digest in which equal numbers are equal, and a typed reason in the log for every refusal:

    protect(server, Statebox.from_source("file:keyring.json", audience="billing"))

**A FastMCP needs one line more**, whatever codec it has: `middleware=[SealedStateOnly()]`, out of
`statebox.mcp.fastmcp`. FastMCP (seen with 4.2.3) takes a member `request_state` for `requestState`
and hands it to the handler as it came, past the SDK's boundary; without that middleware a client
can write a state of its own. MCPServer and the low-level Server do not read that name, and
statebox's own boundary refuses it.

Neither way can tell that a state comes for the first time. That takes a guard (`statebox.replay`):
`SingleUse` for the codec, `guard=` for the boundary.

A token of one way never opens by the other. On the wire both refuse alike: code -32602, message
"Invalid or expired requestState", data `{"reason": "invalid_request_state"}`.
"""

from __future__ import annotations

try:
    from statebox.mcp.boundary import StateboxBoundary
    from statebox.mcp.codec import StateboxCodec, request_state_security
    from statebox.mcp.principal import authenticated_principal
    from statebox.mcp.protection import protect
    from statebox.mcp.single_use import SingleUse
except ModuleNotFoundError as error:
    # Of the SDK, or of an SDK before 2.x, which lacks some of these modules.
    if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
        raise
    raise ImportError(
        'statebox.mcp needs the MCP SDK 2.x: pip install "statebox[mcp]"', name="mcp"
    ) from None

__all__ = [
    "SingleUse",
    "StateboxBoundary",
    "StateboxCodec",
    "authenticated_principal",
    "protect",
    "request_state_security",
]
