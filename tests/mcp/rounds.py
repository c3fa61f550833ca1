"""Rounds without a wire: a request's context, and a chain that ends in a handler of the test's."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

from statebox import Request
from statebox.mcp import StateboxBoundary

ORDER = {"order": "ORD-7001", "cents": 1500}
REFUND: dict[str, Any] = {"name": "refund", "arguments": ORDER}
CALL = Request("tools/call", "refund", ORDER)
STATE = '{"step":"confirm","secret":"sentinel-of-the-state"}'


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


async def state_of(
    boundary: StateboxBoundary, ctx: ServerRequestContext[Any, Any], state: object = STATE
) -> str:
    """Run a round that pauses; give the token that went out."""
    result = await boundary(ctx, Handler(paused(state)))
    assert isinstance(result, dict)
    token = result["requestState"]
    assert isinstance(token, str)
    return token


async def refusal(
    boundary: StateboxBoundary,
    ctx: ServerRequestContext[Any, Any],
    caplog: pytest.LogCaptureFixture,
) -> logging.LogRecord:
    """Run a round whose state must be refused; give the one line that was logged."""
    handler = Handler()
    caplog.clear()
    with pytest.raises(MCPError) as caught:
        await boundary(ctx, handler)
    assert handler.seen == []
    assert caught.value.code == -32602
    assert caught.value.message == "Invalid or expired requestState"
    assert caught.value.data == {"reason": "invalid_request_state"}
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("statebox.mcp", "WARNING")
    return record


async def failure(
    boundary: StateboxBoundary,
    ctx: ServerRequestContext[Any, Any],
    caplog: pytest.LogCaptureFixture,
    result: HandlerResult,
) -> logging.LogRecord:
    """Run a round whose state cannot be sealed; give the one line that was logged."""
    caplog.clear()
    with pytest.raises(MCPError) as caught:
        await boundary(ctx, Handler(result))
    assert (caught.value.code, caught.value.message) == (-32603, "Internal error")
    assert caught.value.data is None
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("statebox.mcp", "ERROR")
    return record


def code(record: logging.LogRecord) -> object:
    """Give the code that a line names as its reason."""
    return record.__dict__["statebox_code"]
