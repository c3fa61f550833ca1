"""The SDK's boundary and statebox at the same work, bound to one request and one principal.

Both start from the request's params and digest its arguments whenever they seal or open.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine
from itertools import cycle
from typing import Any, cast

from mcp.server.context import HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from benchmarks.cases import (
    AUDIENCE,
    METHOD,
    PARAMS,
    PRINCIPALS,
    TTL,
    Pair,
    as_text,
    box_of,
    in_turns,
    text,
)
from benchmarks.measuring import Call
from statebox import Request
from statebox.mcp import StateboxBoundary
from statebox.state import State

Context = ServerRequestContext[Any, Any]


class BareBoundary(RequestStateBoundary):
    """The SDK's boundary with its two halves in reach, without the middleware around them."""

    def seal(self, context: Context, state: str) -> str:
        """Seal as for a result of this request."""
        return self._seal(context, state)

    def unseal(self, context: Context) -> str:
        """Open the token that the request's params carry."""
        state, _ = self._unseal(context)
        return state


def context_of(principal: str, state: str | None = None) -> Context:
    """Make the context of a person's request; nothing that is measured reads its session."""
    session: Any = None
    params: dict[str, Any] = {**PARAMS, "_meta": {"user": principal}}
    if state is not None:
        params["requestState"] = state
    return ServerRequestContext(
        session=session,
        lifespan_context={},
        protocol_version="2026-07-28",
        method=METHOD,
        params=params,
    )


def user(ctx: Context) -> str:
    """Bind to whoever the request is from."""
    assert ctx.params is not None
    principal: str = ctx.params["_meta"]["user"]
    return principal


def sdk_security() -> RequestStateSecurity:
    """Give the SDK's policy, with the bindings that statebox has."""
    return RequestStateSecurity(
        keys=[bytes(range(32))], ttl=TTL, bind_principal=user, audience=AUDIENCE
    )


def sdk_pair(state: State) -> Pair:
    """Give the SDK's calls. It carries text only, so any other state travels as JSON in it."""
    boundary = BareBoundary(sdk_security(), default_audience=None)

    def seal(context: Context) -> str:
        return boundary.seal(context, state if isinstance(state, str) else as_text(state))

    def read(context: Context, token: str) -> object:
        cast("dict[str, Any]", context.params)["requestState"] = token
        inner = boundary.unseal(context)
        return inner if isinstance(state, str) else json.loads(inner)

    return in_turns([context_of(principal) for principal in PRINCIPALS], seal, read)


def statebox_pair(alg: str, state: State) -> Pair:
    """Give statebox's calls, from the same contexts."""
    box = box_of(alg)

    def seal(context: Context) -> str:
        request = Request.from_params(context.method, context.params)
        return box.seal(state, principal=user(context), request=request)

    def read(context: Context, token: str) -> object:
        request = Request.from_params(context.method, context.params)
        return box.open(token, principal=user(context), request=request).state

    return in_turns([context_of(principal) for principal in PRINCIPALS], seal, read)


def sdk_call() -> Call:
    """Give one call through the SDK's middleware."""
    return _call(RequestStateBoundary(sdk_security(), default_audience=None))


def statebox_call(alg: str) -> Call:
    """Give one call through statebox's middleware."""
    return _call(StateboxBoundary(box_of(alg), principal=user))


def _call(middleware: ServerMiddleware[Any]) -> Call:
    state = text(256)

    async def answer(ctx: Context) -> HandlerResult:
        return {"resultType": "input_required", "inputRequests": {}, "requestState": state}

    def call(context: Context) -> dict[str, Any]:
        return cast("dict[str, Any]", _run(middleware(context, answer)))

    def paused(principal: str) -> Context:
        return context_of(principal, call(context_of(principal))["requestState"])

    contexts = cycle([paused(principal) for principal in PRINCIPALS])
    return lambda: call(next(contexts))


def _run(coroutine: Coroutine[Any, Any, HandlerResult]) -> HandlerResult:
    # Nothing in it waits, so no event loop is needed, which would only blur the comparison.
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast("HandlerResult", stop.value)
    raise RuntimeError("the middleware waits for something")
