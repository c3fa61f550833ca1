"""At most once: a turn is spent before its handler runs, and perhaps answered again.

Two policies:

* Without a store of answers, a token that comes again is refused. A client whose answer got lost
  on the way cannot tell whether the handler ran.
* With one, what was answered is kept for the rest of the token's life. A token that comes again,
  from the same principal with the same request, gets the first answer; the handler does not run.

What is kept is sealed under the ring, for it may hold what only the user should see.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias, cast, final

import anyio
from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, ErrorData
from pydantic import BaseModel

from statebox.bindings import Request
from statebox.box import Statebox
from statebox.errors import GuardUnavailableError, ReplayedTokenError, StateboxError
from statebox.events import GuardFailed, Hook, Recalled
from statebox.replay import AnswerStore, ReplayGuard, spend
from statebox.replay.guard import Presented

logger: Final = logging.getLogger("statebox.mcp")

DEFAULT_WAIT: Final = 30.0  # seconds
_FIRST_PAUSE: Final = 0.05  # seconds; doubled up to ...
_LONGEST_PAUSE: Final = 1.0

SingleUseOption: TypeAlias = Callable[[Request], bool] | None
"""Tells which requests are carried out at most once; None: all."""


class Vault(Protocol):
    """Seals what is kept, so that it opens for this token's answer and as nothing else."""

    def seal(self, text: str, turn: Presented) -> str:
        """Seal an answer."""
        ...

    def open(self, sealed: str, turn: Presented) -> str:
        """Open it again."""
        ...


@final
class BoxVault:
    """Seals under the ring of a box."""

    def __init__(self, box: Statebox) -> None:
        self._box = box.sibling("answers")

    def seal(self, text: str, turn: Presented) -> str:
        """Seal an answer."""
        left = max(1, turn.expires_at - self._box.clock())
        return self._box.seal(text, principal=None, request=_answer_to(turn), ttl=left)

    def open(self, sealed: str, turn: Presented) -> str:
        """Open it again."""
        text = self._box.open(sealed, principal=None, request=_answer_to(turn)).state
        return cast("str", text)


def _answer_to(turn: Presented) -> Request:
    return Request("statebox/answer", turn.token_id)


@final
class Once:
    """Carries each turn out at most once.

    Args:
        guard: Remembers which tokens were spent.
        only: Which requests it is for; None: all. A callable that raises means all as well.
        store: Keeps answers; None: a token that comes again is refused.
        vault: Seals what the store keeps.
        wait: How long a token that comes again waits for the answer to the first, in seconds.
        on_event: Gets `GuardFailed` and `Recalled`; must not raise.
    """

    def __init__(
        self,
        guard: ReplayGuard,
        *,
        only: SingleUseOption,
        store: AnswerStore | None,
        vault: Vault,
        wait: float,
        on_event: Hook | None,
    ) -> None:
        self._guard = guard
        self._only = only
        self._store = store
        self._vault = vault
        self._wait = wait
        self._on_event = on_event

    def covers(self, request: Request) -> bool:
        """Tell whether a request is to be carried out at most once."""
        if self._only is None:
            return True
        try:
            return bool(self._only(request))
        except Exception:
            # INVARIANT: in doubt, once.
            logger.exception("the single_use callable raised; the request is taken as single use")
            return True

    async def begin(self, turn: Presented, request: Request) -> Answer | None:
        """Spend a turn.

        Args:
            turn: An opened token, whose every check held.
            request: The request that it came with.

        Returns:
            None: it is the first time; go on. Else the answer that was given then.

        Raises:
            ReplayedTokenError: It was spent before, and there is no answer to give again.
            GuardUnavailableError: The guard or the store cannot tell.
        """
        try:
            await spend(self._guard, turn, on_event=self._on_event)
        except ReplayedTokenError:
            answer = None if self._store is None else await self._recall(self._store, turn)
            if answer is None:
                raise
        else:
            return None
        if self._on_event is not None:
            self._on_event(
                Recalled(
                    token_id=turn.token_id,
                    flow=turn.flow,
                    round=turn.round,
                    method=request.method,
                    target=request.target,
                )
            )
        return answer

    async def finish(
        self, turn: Presented, handler: Callable[[], Awaitable[HandlerResult]]
    ) -> HandlerResult:
        """Run the handler of a turn that was spent, and keep what it answers.

        Where answers are kept, a client that hangs up does not cancel the handler: it may have done
        half of its work, and its answer is what the client will ask for.

        Args:
            turn: The turn.
            handler: Carries it out, up to the result that leaves for the wire.

        Returns:
            Its result.
        """
        if self._store is None:
            return await handler()
        result: HandlerResult = None
        with anyio.CancelScope(shield=True):
            try:
                result = await handler()
            except Exception as error:
                await self._keep(self._store, turn, error)
                raise
            await self._keep(self._store, turn, result)
        return result

    async def _recall(self, store: AnswerStore, turn: Presented) -> Answer | None:
        answer = await self._look(store, turn)
        with anyio.move_on_after(self._wait):
            pause = _FIRST_PAUSE
            while answer is None:
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                answer = await self._look(store, turn)
        return answer

    async def _look(self, store: AnswerStore, turn: Presented) -> Answer | None:
        try:
            kept = await store.get(turn.token_id)
            return None if kept is None else Answer(self._vault.open(kept.decode(), turn))
        except Exception as error:
            self._failed(store, error)
            raise _unknown(error, turn) from error

    async def _keep(
        self, store: AnswerStore, turn: Presented, answer: HandlerResult | Exception
    ) -> None:
        try:
            sealed = self._vault.seal(_written(answer), turn)
            await store.put(turn.token_id, sealed.encode(), turn.expires_at)
        except Exception as error:  # noqa: BLE001 - the client gets its answer all the same
            self._failed(store, error)
            logger.warning(
                "the answer to token %s is not kept: %s", turn.token_id[:8], _reason(error)
            )

    def _failed(self, store: AnswerStore, error: Exception) -> None:
        if self._on_event is not None:
            self._on_event(GuardFailed(guard=type(store).__name__, reason=_reason(error)))


@final
class Answer:
    """What was answered to a turn.

    Args:
        text: As it was kept.
    """

    def __init__(self, text: str) -> None:
        members = cast("dict[str, Any]", json.loads(text))
        error = members.get("error")
        self._error = None if error is None else ErrorData.model_validate(error)
        self._result = cast("dict[str, Any] | None", members.get("result"))

    def give(self) -> HandlerResult:
        """Answer again.

        Raises:
            MCPError: That was the answer.
        """
        if self._error is not None:
            raise MCPError.from_error_data(self._error)
        return self._result


def _written(answer: HandlerResult | Exception) -> str:
    if isinstance(answer, Exception):
        return json.dumps({"error": _told(answer).model_dump(mode="json", exclude_none=True)})
    # The chain gives the wire's mapping; a middleware that answers by itself may give a model.
    if isinstance(answer, BaseModel):
        answer = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps({"result": answer})


def _told(error: Exception) -> ErrorData:
    # What the SDK tells the client of an error that is not meant for it.
    if isinstance(error, MCPError):
        return error.error
    return ErrorData(code=INTERNAL_ERROR, message="Internal server error")


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, StateboxError) else type(error).__name__


def _unknown(error: Exception, turn: Presented) -> GuardUnavailableError:
    unknown = GuardUnavailableError(f"the kept answer cannot be read: {_reason(error)}")
    unknown.key_id, unknown.token_id = turn.key_id, turn.token_id
    unknown.flow, unknown.round = turn.flow, turn.round
    unknown.issued_at, unknown.expires_at = turn.issued_at, turn.expires_at
    return unknown
