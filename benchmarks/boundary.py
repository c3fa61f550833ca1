"""The SDK's boundary and statebox at the same work, bound to one request and one principal.

Both start from the request's params and digest its arguments whenever they seal or open.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any, cast

from mcp.server.context import HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from benchmarks.cases import (
    AUDIENCE,
    METHOD,
    PARAMS,
    PRINCIPAL,
    TTL,
    Pair,
    as_text,
    box_of,
    text,
)
from benchmarks.measuring import Call
from statebox import Request
from statebox.cbor import State
from statebox.mcp import StateboxBoundary

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


def context_of(params: dict[str, Any]) -> Context:
    """Make the context of a request; nothing that is measured reads its session."""
    session: Any = None
    return ServerRequestContext(
        session=session,
        lifespan_context={},
        protocol_version="2026-07-28",
        method=METHOD,
        params=params,
    )


def sdk_security() -> RequestStateSecurity:
    """Give the SDK's policy, with the bindings that statebox has."""
    return RequestStateSecurity(
        keys=[bytes(range(32))], ttl=TTL, bind_principal=principal, audience=AUDIENCE
    )


def principal(ctx: Context) -> str:
    """Bind to the same person everywhere."""
    return PRINCIPAL


def sdk_pair(state: State) -> Pair:
    """Give the SDK's calls. It carries text only, so any other state travels as JSON in it."""
    boundary = BareBoundary(sdk_security(), default_audience=None)
    params = dict(PARAMS)
    context = context_of(params)

    def seal() -> str:
        return boundary.seal(context, state if isinstance(state, str) else as_text(state))

    def read(token: str) -> object:
        params["requestState"] = token
        inner = boundary.unseal(context)
        return inner if isinstance(state, str) else json.loads(inner)

    token = seal()
    return Pair(seal, lambda: read(token), lambda: read(seal()))


def statebox_pair(alg: str, state: State) -> Pair:
    """Give statebox's calls, from the same params."""
    box = box_of(alg)

    def seal() -> str:
        request = Request.from_params(METHOD, PARAMS)
        return box.seal(state, principal=PRINCIPAL, request=request)

    def read(token: str) -> object:
        request = Request.from_params(METHOD, PARAMS)
        return box.open(token, principal=PRINCIPAL, request=request).state

    token = seal()
    return Pair(seal, lambda: read(token), lambda: read(seal()))


def sdk_call() -> Call:
    """Give one call through the SDK's middleware."""
    return _call(RequestStateBoundary(sdk_security(), default_audience=None))


def statebox_call(alg: str) -> Call:
    """Give one call through statebox's middleware."""
    return _call(StateboxBoundary(box_of(alg), principal=principal))


def _call(middleware: ServerMiddleware[Any]) -> Call:
    state = text(256)

    async def answer(ctx: Context) -> HandlerResult:
        return {"resultType": "input_required", "inputRequests": {}, "requestState": state}

    def call(context: Context) -> dict[str, Any]:
        return cast("dict[str, Any]", _run(middleware(context, answer)))

    first = call(context_of(PARAMS))
    context = context_of({**PARAMS, "requestState": first["requestState"]})
    return lambda: call(context)


def _run(coroutine: Coroutine[Any, Any, HandlerResult]) -> HandlerResult:
    # Nothing in it waits, so no event loop is needed, which would only blur the comparison.
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast("HandlerResult", stop.value)
    raise RuntimeError("the middleware waits for something")
