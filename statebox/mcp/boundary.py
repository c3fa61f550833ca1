"""statebox's own boundary: a middleware that opens states coming in and seals them going out.

It keeps the contract of the SDK's `RequestStateBoundary` and puts statebox's claims in its place:
flows with a deadline and a count of rounds, a digest in which equal numbers are equal, and a typed
reason in the log for every refusal. On the wire all refusals are one answer.

Text goes in and text comes out: to the SDK a handler's `requestState` is text, and text is the
state that the token holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, cast, final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types.methods import INPUT_REQUIRED_METHODS, is_input_required

from statebox.bindings import Request
from statebox.box import Statebox
from statebox.continuation import Continuation
from statebox.errors import (
    MalformedTokenError,
    RequestError,
    SealError,
    StateboxError,
)
from statebox.mcp.answers import fail, refuse
from statebox.mcp.principal import PrincipalBinding, PrincipalOption, authenticated_principal


@final
class StateboxBoundary:
    """Opens and seals `requestState` for every handler of a server; a `ServerMiddleware`.

    It acts on the methods whose results may carry a state (tools/call, prompts/get,
    resources/read) and passes every other message untouched. A state that comes in is opened and
    replaced by its text before any handler runs; an absent one, and null, pass. A state that goes
    out in an `input_required` result is sealed, in the flow that the round belongs to.

    A low-level `Server` takes it in its `middleware`; `protect` puts it there, and on an
    `MCPServer` into the place of the SDK's boundary: a state must not be sealed twice.

    Args:
        box: Seals and opens.
        principal: Who a state is bound to. By default the SDK's authenticated identity, if any;
            a callable `(ctx) -> str | Sequence[str] | None` of yours; `"require"` to refuse a
            round without an authenticated identity; None to bind to nobody.

    Raises:
        TypeError: An argument is of another type.
    """

    def __init__(
        self, box: Statebox, *, principal: PrincipalOption = authenticated_principal
    ) -> None:
        # A wrong argument would otherwise fail in the first paused call, in production.
        if not isinstance(cast("object", box), Statebox):
            raise TypeError(f"a StateboxBoundary takes a Statebox, not a {type(box).__name__}")
        self._box = box
        self._principal = PrincipalBinding(principal)

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Take one message through the boundary.

        Args:
            ctx: The message's context, with its params as they came.
            call_next: The rest of the chain.

        Returns:
            The chain's result, its state sealed.

        Raises:
            MCPError: The state that came in is refused (-32602, one answer for every reason), or
                the one that goes out cannot be sealed (-32603). The log has the reason.
        """
        if ctx.method not in INPUT_REQUIRED_METHODS:
            return await call_next(ctx)
        this_round = _Round(ctx, self._principal)
        turn: Continuation | None = None
        # A client can leave the member out at will, so null means no more than absence.
        if ctx.params is not None and ctx.params.get("requestState") is not None:
            turn = self._open(ctx.params["requestState"], this_round)
            ctx = replace(ctx, params={**ctx.params, "requestState": turn.state})
        result = await call_next(ctx)
        if not is_input_required(result):
            return result
        # The chain gives the wire's mapping; a middleware that answers by itself may give a model.
        if isinstance(result, Mapping):
            state: object = result.get("requestState")
            if state is None:
                return result
            return {**result, "requestState": self._seal(state, this_round, turn)}
        if result.request_state is None:
            return result
        token = self._seal(result.request_state, this_round, turn)
        return result.model_copy(update={"request_state": token})

    def _open(self, token: object, this_round: _Round) -> Continuation:
        try:
            # Not text: the box refuses that as malformed, like any other token.
            turn = self._box.open(
                cast("str", token), principal=this_round.principal, request=this_round.request
            )
            # A box of another program, with this ring and audience, may seal other states.
            if not isinstance(turn.state, str):
                error = MalformedTokenError("the state is not text", key_id=turn.key_id)
                error.token_id = turn.token_id
                raise error
        except StateboxError as error:  # a KeyringError of a live source as well: deny on error
            refuse(this_round.method, error)
        return turn

    def _seal(self, state: object, this_round: _Round, turn: Continuation | None) -> str:
        try:
            # INVARIANT: a state leaves sealed or not at all, so what cannot be sealed is no result.
            if not isinstance(state, str):
                raise SealError(
                    "unsupported_state",
                    f"requestState is a {type(state).__name__}, not text",
                    hint="Return the state as text, JSON for example; a handler gets text back.",
                )
            return self._box.seal(
                state, principal=this_round.principal, request=this_round.request, after=turn
            )
        except StateboxError as error:
            fail(this_round.method, error)


@final
class _Round:
    """What the states of one round are bound to: found once, for opening and sealing alike."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], principal: PrincipalBinding) -> None:
        self.method = ctx.method
        self._ctx = ctx
        self._binding = principal
        self._request: Request | RequestError
        # INVARIANT: digested before any handler runs. A handler may change its arguments in place,
        # and a state belongs to the request that the client sent and will send again.
        try:
            self._request = Request.from_params(ctx.method, ctx.params)
        except (TypeError, ValueError) as error:
            # No reason to refuse a call that carries no state: kept until one is to be bound.
            self._request = RequestError(
                str(error), hint="The client's arguments cannot be digested."
            )

    @property
    def request(self) -> Request:
        """The request as the client sent it; raises a RequestError if nothing can be bound to it."""
        if isinstance(self._request, RequestError):
            raise self._request
        return self._request

    @cached_property
    def principal(self) -> tuple[str, ...] | None:
        """Who is asking; raises a PrincipalError if that cannot be told."""
        return self._binding.find(self._ctx)
