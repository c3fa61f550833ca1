"""What a FastMCP server needs besides `request_state_security`: one middleware, and one for single use.

FastMCP reads a request's parameters once more by itself, and then takes `request_state`, the name
the member has in Python, for `requestState`, its name on the wire. The SDK's boundary opens the one
and does not know the other, so a client that sends the other hands its own text to a handler as if
the server had sealed it (seen with FastMCP 4.2.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

try:
    from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
except ModuleNotFoundError as error:
    # Of FastMCP alone: what FastMCP itself does not find, it names itself.
    if (error.name or "").partition(".")[0] != "fastmcp":
        raise
    raise ImportError(
        'statebox.mcp.fastmcp needs FastMCP 4: pip install "fastmcp>=4"', name="fastmcp"
    ) from None
from mcp_types.methods import INPUT_REQUIRED_METHODS

from statebox.events import Hook
from statebox.mcp.answers import never_opened, refuse
from statebox.mcp.once import SingleUseOption
from statebox.mcp.opened import OPENED
from statebox.mcp.single_use import Spending
from statebox.replay import ReplayGuard


@final
class SealedStateOnly(Middleware):
    """Refuses every request of a tool, prompt or resource that would see a state never opened.

    Use it on every FastMCP server that pauses, beside the policy:

        FastMCP("billing", request_state_security=request_state_security(...),
                middleware=[SealedStateOnly()])

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
            refuse(context.method or "-", never_opened())
        return await call_next(context)


@final
class SingleUse(Middleware):
    """Accepts each state once, on a FastMCP server whose states are sealed by statebox's codec.

        FastMCP("billing", request_state_security=request_state_security(...),
                middleware=[SealedStateOnly(), SingleUse(SQLiteGuard("spent.db"))])

    A state is spent after every check of the SDK's and before its tool, prompt or resource runs.

    Args:
        guard: Remembers spent states; see `statebox.replay`.
        single_use: Which requests it is for: a callable `(Request) -> bool`; None: all.
        on_event: Called with a `Rejected` for a state that was spent before, and with a
            `GuardFailed`.
    """

    def __init__(
        self,
        guard: ReplayGuard,
        *,
        single_use: SingleUseOption = None,
        on_event: Hook | None = None,
    ) -> None:
        self._spending = Spending(guard, single_use=single_use, on_event=on_event)

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:  # noqa: ANN401 - FastMCP's signature
        """Spend the state of a request, if it carries one, and pass the request on.

        Raises:
            MCPError: The frozen answer of a refused state (-32602). The log has the reason.
        """
        inner = context.fastmcp_context
        method = context.method
        if (
            inner is None
            or inner.is_background_task
            or isinstance(context.message, Mapping)
            or method not in INPUT_REQUIRED_METHODS
            or inner.request_state is None
        ):
            return await call_next(context)
        opened = self._spending.opened(method, inner.request_state)
        # A tool may call another one of the server's: that is the same request of the client's.
        if not opened.spent:
            opened.spent = True
            params: dict[str, Any] = context.message.model_dump(mode="json", by_alias=True)
            request = self._spending.covered(method, params)
            if request is not None:
                await self._spending.spend(opened, request)
        return await call_next(context)


def _is_opened(state: str) -> bool:
    opened = OPENED.get()
    return opened is not None and opened.holds(state)
