"""statebox's own boundary: a middleware that opens states coming in and seals them going out.

It keeps the contract of the SDK's `RequestStateBoundary` and puts statebox's claims in its place:
flows with a deadline and a count of rounds, a digest in which equal numbers are equal, and a typed
reason in the log for every refusal. On the wire all refusals are one answer.

Text goes in and text comes out: to the SDK a handler's `requestState` is text, and text is the
state that the token holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypedDict, cast, final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.request_state import authenticated_principal as sdk_authenticated_principal
from mcp_types.methods import INPUT_REQUIRED_METHODS, is_input_required

from statebox.bindings import Request
from statebox.box import Statebox
from statebox.continuation import Continuation
from statebox.errors import (
    KeyringError,
    MalformedTokenError,
    OpenError,
    RequestError,
    SealError,
    StateboxError,
)
from statebox.mcp.answers import fail, never_opened, refuse
from statebox.mcp.cutover import SDKKeys, SDKPrincipal, SDKState, SDKTokens, is_sdk_token
from statebox.mcp.once import DEFAULT_WAIT, BoxVault, Once, SingleUseOption
from statebox.mcp.principal import PrincipalBinding, PrincipalOption, authenticated_principal
from statebox.replay import AnswerStore, ReplayGuard
from statebox.reports import report_rejected


class BoundaryOptions(TypedDict, total=False):
    """What a `StateboxBoundary` takes besides its box."""

    principal: PrincipalOption
    ttl: Mapping[str, float] | None
    guard: ReplayGuard | None
    single_use: SingleUseOption
    remember: AnswerStore | None
    wait: float
    accept_sdk_keys: SDKKeys | None
    sdk_audience: str | None
    sdk_principal: SDKPrincipal


@final
class StateboxBoundary:
    """Opens and seals `requestState` for every handler of a server; a `ServerMiddleware`.

    It acts on the methods whose results may carry a state (tools/call, prompts/get,
    resources/read) and passes every other message untouched. A state that comes in is opened and
    replaced by its text before any handler runs; an absent one, and null, pass. One that comes as
    `request_state`, its name in Python, is refused: to who reads that name it was never opened. A
    state that goes out in an `input_required` result is sealed, in the flow of its round.

    A low-level `Server` takes it in its `middleware`; `protect` puts it there, and on an
    `MCPServer` into the place of the SDK's boundary: a state must not be sealed twice.

    Args:
        box: Seals and opens.
        principal: Who a state is bound to. By default the SDK's authenticated identity, if any;
            a callable `(ctx) -> str | Sequence[str] | None` of yours; `"require"` to refuse a
            round without an authenticated identity; None to bind to nobody.
        ttl: How long a state lives, in seconds, by the name of its tool or prompt or the uri of its
            resource; for all others, what the box says. A person in a browser may need an hour:
            then the box's `max_flow_age` must be as long.
        guard: Remembers spent states: each is then accepted once, and spent before its handler
            runs. See `statebox.replay`.
        single_use: Which requests the guard is for: a callable `(Request) -> bool`; None: all.
        remember: Keeps answers: who presents a spent state again, as a client does whose answer
            got lost, gets the first answer again. The handler still runs once, and a client that
            hangs up does not cancel it. The three guards are such stores too.
        wait: How long, in seconds, a state that comes again waits for the answer to the first.
        accept_sdk_keys: The `keys=` of a deployment with the SDK's built-in codec, to be moved off:
            the flows that it began are finished here. Its tokens are checked by the SDK, and the
            next state of the flow is one of statebox's.
        sdk_audience: The `audience=` that deployment had, or else the name of its server; "" for
            tokens without one. None: the audience of the box; with `protect`, the server's name.
        sdk_principal: The `bind_principal=` that it had.

    Raises:
        TypeError, ValueError: An argument is of another type, or has no effect without another;
            keys that the SDK does not take.
    """

    def __init__(
        self,
        box: Statebox,
        *,
        principal: PrincipalOption = authenticated_principal,
        ttl: Mapping[str, float] | None = None,
        guard: ReplayGuard | None = None,
        single_use: SingleUseOption = None,
        remember: AnswerStore | None = None,
        wait: float = DEFAULT_WAIT,
        accept_sdk_keys: SDKKeys | None = None,
        sdk_audience: str | None = None,
        sdk_principal: SDKPrincipal = sdk_authenticated_principal,
    ) -> None:
        # A wrong argument would otherwise fail in the first paused call, in production.
        if not isinstance(cast("object", box), Statebox):
            raise TypeError(f"a StateboxBoundary takes a Statebox, not a {type(box).__name__}")
        self._box = box
        self._principal = PrincipalBinding(principal)
        self._ttl = {name: box.require_ttl(seconds) for name, seconds in (ttl or {}).items()}
        self._once: Once | None = None
        if guard is not None:
            self._once = Once(
                guard,
                only=single_use,
                store=remember,
                vault=BoxVault(box),
                wait=wait,
                on_event=box.on_event,
            )
        elif single_use is not None or remember is not None:
            raise ValueError(
                "single_use= and remember= need a guard=, which tells first from again"
            )
        self._sdk: SDKTokens | None = None
        if accept_sdk_keys is not None:
            audience = box.audience if sdk_audience is None else sdk_audience
            self._sdk = SDKTokens(
                accept_sdk_keys, audience=audience, principal=sdk_principal, on_event=box.on_event
            )
        elif sdk_audience is not None or sdk_principal is not sdk_authenticated_principal:
            raise ValueError("sdk_audience= and sdk_principal= need accept_sdk_keys=")

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
        params: Mapping[str, Any] = ctx.params or {}
        # INVARIANT: what a client writes is no state until it was opened. There is no reason to send
        # this name but a reader that takes it for the other, as FastMCP does.
        if params.get("request_state") is not None:
            self._report_and_refuse(never_opened(), None, this_round)
        # A client can leave the member out at will, so null means no more than absence.
        token = params.get("requestState")
        if token is None:
            return self._sealed(await call_next(ctx), this_round, None)
        turn: Continuation | SDKState
        if self._sdk is not None and is_sdk_token(token):
            turn = await self._open_sdk(self._sdk, ctx, token, this_round)
        else:
            turn = self._open(token, this_round)
        # As `copy.copy` and `dataclasses.replace`, which take three times as long.
        opened = object.__new__(type(ctx))
        vars(opened).update(vars(ctx), params={**params, "requestState": turn.state})
        once = self._once
        if once is None or not once.covers(this_round.request):
            return self._sealed(await call_next(opened), this_round, turn)
        return await self._at_most_once(once, token, turn, this_round, opened, call_next)

    async def _at_most_once(
        self,
        once: Once,
        token: str,
        turn: Continuation | SDKState,
        this_round: _Round,
        ctx: ServerRequestContext[Any, Any],
        call_next: CallNext,
    ) -> HandlerResult:
        async def go_on() -> HandlerResult:
            return self._sealed(await call_next(ctx), this_round, turn)

        try:
            answer = await once.begin(turn, this_round.request)
        except OpenError as error:
            self._report_and_refuse(error, token, this_round)
        return await once.finish(turn, go_on) if answer is None else answer.give()

    def _report_and_refuse(
        self, error: OpenError, token: str | None, this_round: _Round
    ) -> NoReturn:
        on_event = self._box.on_event
        if on_event is not None:
            on_event(report_rejected(error, self._box.clock(), token, this_round.digestible))
        refuse(this_round.method, error)

    def _sealed(
        self, result: HandlerResult, this_round: _Round, turn: Continuation | SDKState | None
    ) -> HandlerResult:
        # The chain gives the wire's dict; a middleware that answers by itself may give another
        # mapping or a model. `is_input_required` says the same of a dict, in ten times the time.
        if type(result) is dict:
            if result.get("resultType") != "input_required":
                return result
        elif not is_input_required(result):
            return result
        if type(result) is dict or isinstance(result, Mapping):  # the former asks no ABC
            state: object = result.get("requestState")
            if state is None:
                return result
            return {**result, "requestState": self._seal(state, this_round, turn)}
        if result.request_state is None:
            return result
        token = self._seal(result.request_state, this_round, turn)
        return result.model_copy(update={"request_state": token})

    def _open(self, token: str, this_round: _Round) -> Continuation:
        try:
            # If it is not text after all, the box refuses it as malformed, like any other token.
            turn = self._box.open(token, principal=this_round.principal, request=this_round.request)
        except StateboxError as error:  # a KeyringError of a live source as well: deny on error
            refuse(this_round.method, error)
        # A box of another program, with this ring and audience, may seal other states.
        if not isinstance(turn.state, str):
            other = MalformedTokenError("the state is not text", key_id=turn.key_id)
            other.token_id = turn.token_id
            self._report_and_refuse(other, token, this_round)
        return turn

    async def _open_sdk(
        self, sdk: SDKTokens, ctx: ServerRequestContext[Any, Any], token: str, this_round: _Round
    ) -> SDKState:
        try:
            # As with a token of ours, what cannot be told refuses the round before its handler runs.
            request, _ = this_round.request, this_round.principal
            return await sdk.open(ctx, token, request)
        except StateboxError as error:
            refuse(this_round.method, error)

    def _seal(self, state: object, this_round: _Round, turn: Continuation | SDKState | None) -> str:
        try:
            # INVARIANT: a state leaves sealed or not at all, so what cannot be sealed is no result.
            if not isinstance(state, str):
                raise SealError(
                    "unsupported_state",
                    f"requestState is a {type(state).__name__}, not text",
                    hint="Return the state as text, JSON for example; a handler gets text back.",
                )
            request = this_round.request
            return self._box.seal(
                state,
                principal=this_round.principal,
                request=request,
                # A state of the SDK's is of no flow: one begins with the first state of ours.
                after=turn if isinstance(turn, Continuation) else None,
                ttl=self._ttl_of(request) if self._ttl else None,
            )
        except StateboxError as error:
            fail(this_round.method, error, flow=None if turn is None else turn.flow)

    def _ttl_of(self, request: Request) -> int | None:
        ttl = self._ttl.get(request.target)
        try:
            return None if ttl is None else self._box.require_ttl(ttl)
        except ValueError as error:
            # It was right at the start; a ring that came later has a shorter max_ttl.
            raise KeyringError(str(error), hint="Shorten the ttl of this target.") from None


@final
class _Round:
    """What the states of one round are bound to: found once, for opening and sealing alike."""

    __slots__ = ("_asked", "_binding", "_ctx", "_principal", "_problem", "digestible", "method")

    def __init__(self, ctx: ServerRequestContext[Any, Any], principal: PrincipalBinding) -> None:
        self.method = ctx.method
        self._ctx = ctx
        self._binding = principal
        self._principal: str | tuple[str, ...] | None = None
        self._asked = False
        self._problem = ""
        self.digestible: Request | None = None
        # INVARIANT: digested before any handler runs. A handler may change its arguments in place,
        # and a state belongs to the request that the client sent and will send again.
        try:
            self.digestible = Request.from_params(ctx.method, ctx.params)
        except (TypeError, ValueError) as error:
            # No reason to refuse a call that carries no state: kept until one is to be bound.
            self._problem = str(error)

    @property
    def request(self) -> Request:
        """The request as the client sent it; raises a RequestError if nothing can be bound to it."""
        if self.digestible is None:
            raise RequestError(self._problem, hint="The client's arguments cannot be digested.")
        return self.digestible

    @property
    def principal(self) -> str | tuple[str, ...] | None:
        """Who is asking; raises a PrincipalError if that cannot be told."""
        if not self._asked:
            self._principal = self._binding.find(self._ctx)
            self._asked = True
        return self._principal
