"""What a FastMCP server needs besides `request_state_security`: one middleware.

FastMCP reads a request's parameters once more by itself, and then takes `request_state`, the name
the member has in Python, for `requestState`, its name on the wire. The SDK's boundary opens the one
and does not know the other, so a client that sends the other hands its own text to a handler as if
the server had sealed it (seen with FastMCP 4.2.3).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, final

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from statebox.errors import MalformedTokenError
from statebox.mcp.answers import refuse
from statebox.mcp.codec import OPENED


@final
class SealedStateOnly(Middleware):
    """Refuses every request whose handler would see a state that was never opened.

    Use it on every FastMCP server that pauses, beside the policy:
    `FastMCP(..., request_state_security=request_state_security(...), middleware=[SealedStateOnly()])`.

    Raises:
        MCPError: The frozen answer of a refused state (-32602). The log has the reason.
    """

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:  # noqa: ANN401 - FastMCP's signature
        """Pass a request on, unless its state came by another way than the boundary."""
        inner = context.fastmcp_context
        # Raw parameters: a request that was refused before it reached any handler is shown here
        # once more. And the state of a background task never was on the wire.
        if inner is None or inner.is_background_task or isinstance(context.message, Mapping):
            return await call_next(context)
        seen = inner.request_state
        # INVARIANT: a handler sees the state that the codec opened in this request, or none.
        if seen is not None and not _is_opened(seen):
            refuse(
                context.method or "-",
                MalformedTokenError(
                    "the state came in request_state, which is never sealed",
                    hint="Somebody tries to hand a handler a state of their own; look who it is.",
                ),
            )
        return await call_next(context)


def _is_opened(state: str) -> bool:
    claims = OPENED.get()
    return claims is not None and json.loads(claims)["s"] == state
