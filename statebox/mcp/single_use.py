"""Single use behind the SDK's own boundary, where statebox is only its codec."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, cast, final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types.methods import INPUT_REQUIRED_METHODS

from statebox.bindings import Request
from statebox.errors import MalformedTokenError, OpenError, RequestError
from statebox.events import Hook, safe
from statebox.mcp.answers import refuse
from statebox.mcp.once import DEFAULT_WAIT, Answer, Once, SingleUseOption
from statebox.mcp.opened import OPENED, OpenedState
from statebox.replay import AnswerStore, ReplayGuard
from statebox.replay.guard import Presented
from statebox.reports import report_rejected


@final
class SingleUse:
    """Accepts each state once; a `ServerMiddleware` for inside of the SDK's boundary.

        MCPServer("billing", request_state_security=request_state_security(...),
                  middleware=[SingleUse(SQLiteGuard("spent.db"))])

    A low-level `Server` takes it in its `middleware`, after the boundary; a FastMCP takes the one
    of `statebox.mcp.fastmcp`. With a `StateboxBoundary` it is not needed: that takes `guard=`.

    A state is spent after every check of the SDK's and before the handler runs.

    Args:
        guard: Remembers spent states; see `statebox.replay`.
        single_use: Which requests it is for: a callable `(Request) -> bool`; None: all.
        remember: Keeps answers: who presents a spent state again gets the first answer again, as
            with `StateboxBoundary`.
        wait: How long, in seconds, a state that comes again waits for the answer to the first.
        on_event: Called with `Rejected`, `Recalled` and `GuardFailed`.
    """

    def __init__(
        self,
        guard: ReplayGuard,
        *,
        single_use: SingleUseOption = None,
        remember: AnswerStore | None = None,
        wait: float = DEFAULT_WAIT,
        on_event: Hook | None = None,
    ) -> None:
        self._spending = Spending(
            guard, single_use=single_use, remember=remember, wait=wait, on_event=on_event
        )

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Take one message through.

        Args:
            ctx: The message's context, its state opened.
            call_next: The rest of the chain.

        Returns:
            The chain's result, or the one that was given before.

        Raises:
            MCPError: The state was spent before, or the guard cannot tell (-32602, the one answer
                of every refused state). The log has the reason.
        """
        state = None if ctx.params is None else ctx.params.get("requestState")
        if ctx.method not in INPUT_REQUIRED_METHODS or state is None:
            return await call_next(ctx)
        spending = self._spending
        opened = spending.opened(ctx.method, state)
        OPENED.set(None)  # taken: whatever else this task does has nothing opened
        request = spending.covered(ctx.method, ctx.params)
        if request is None:
            return await call_next(ctx)
        answer = await spending.spend(opened, request)
        if answer is not None:
            return answer.give()
        return await spending.once.finish(opened, lambda: call_next(ctx))


@final
class Spending:
    """What the middleware of both kinds of server have in common; see `SingleUse`."""

    def __init__(
        self,
        guard: ReplayGuard,
        *,
        single_use: SingleUseOption,
        remember: AnswerStore | None = None,
        wait: float = DEFAULT_WAIT,
        on_event: Hook | None,
    ) -> None:
        self._on_event = safe(on_event)
        self.once = Once(
            guard,
            only=single_use,
            store=remember,
            vault=_Vault(),
            wait=wait,
            on_event=self._on_event,
        )

    def opened(self, method: str, state: object) -> OpenedState:
        """Find what the codec has opened for the state that a handler is about to see.

        Raises:
            MCPError: Nothing: the state is sealed by something else, or not yet opened.
        """
        opened = OPENED.get()
        # INVARIANT: fails closed. Standing outside of the boundary, or beside another codec, the
        # middleware cannot tell which token it has before it.
        if opened is None or not opened.holds(state):
            refuse(
                method,
                MalformedTokenError(
                    "the state was not opened by statebox's codec",
                    hint="Put SingleUse inside of the SDK's boundary, and use "
                    "request_state_security() of statebox.mcp.",
                ),
            )
        return opened

    def covered(self, method: str, params: Mapping[str, Any] | None) -> Request | None:
        """Give the request if it is to be carried out at most once; else None.

        Raises:
            MCPError: Its arguments cannot be digested.
        """
        try:
            request = Request.from_params(method, params)
        except (TypeError, ValueError) as error:
            refuse(method, RequestError(str(error), hint="The arguments cannot be digested."))
        return request if self.once.covers(request) else None

    async def spend(self, opened: OpenedState, request: Request) -> Answer | None:
        """Spend a state; None: it is the first time.

        Raises:
            MCPError: The frozen answer of a refused state.
        """
        try:
            return await self.once.begin(opened, request)
        except OpenError as error:
            if self._on_event is not None:
                self._on_event(report_rejected(error, time.time(), None, request))
            refuse(request.method, error)


@final
class _Vault:
    """Seals kept answers as the codec seals its own: as bytes that are no claims of the SDK's."""

    def seal(self, text: str, turn: Presented) -> str:
        opened = cast("OpenedState", turn)
        return opened.seal(json.dumps({"answer": text, "token": opened.token_id}).encode())

    def open(self, sealed: str, turn: Presented) -> str:
        opened = cast("OpenedState", turn)
        members = cast("dict[str, str]", json.loads(opened.open(sealed)))
        if members["token"] != opened.token_id:
            raise MalformedTokenError("the kept answer is another token's", key_id=opened.key_id)
        return members["answer"]
