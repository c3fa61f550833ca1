"""Rounds without a wire: a request's context, and a chain that ends in a handler of the test's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession

ORDER = {"order": "ORD-7001", "cents": 1500}
REFUND: dict[str, Any] = {"name": "refund", "arguments": ORDER}


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


def context(
    params: Mapping[str, Any] | None = None, *, method: str = "tools/call", state: object = None
) -> ServerRequestContext[Any, Any]:
    """Make the context that the SDK's runner makes of a request, without a connection."""
    members = dict(REFUND if params is None else params)
    if state is not None:
        members["requestState"] = state
    return ServerRequestContext(
        session=cast("ServerSession", None),
        lifespan_context={},
        protocol_version="2026-07-28",
        method=method,
        params=members,
        request_id=1,
    )


def paused(state: object) -> dict[str, Any]:
    """Make the wire form of a result that asks for input and carries a state."""
    return {"resultType": "input_required", "inputRequests": {}, "requestState": state}


@dataclass
class Handler:
    """The rest of a chain: gives one result, and keeps the contexts it was called with."""

    result: HandlerResult = None
    seen: list[ServerRequestContext[Any, Any]] = field(
        default_factory=list[ServerRequestContext[Any, Any]]
    )

    async def __call__(self, ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        self.seen.append(ctx)
        return self.result

    @property
    def state(self) -> object:
        """The state that the last call was given."""
        return (self.seen[-1].params or {}).get("requestState")
