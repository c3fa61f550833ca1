"""What a replay guard promises, and how a token is spent with one (step 12 of the format's section 6)."""

from __future__ import annotations

import asyncio
import inspect
from functools import lru_cache
from typing import Final, Protocol

from statebox.errors import GuardUnavailableError, OpenError, ReplayedTokenError
from statebox.events import GuardFailed, Hook

DEFAULT_TIMEOUT: Final = 1.0  # seconds
# How long an id is kept beyond its token's end, in seconds: the clock of the replica that asks next
# may be that far behind.
KEPT_AFTER_EXPIRY: Final = 60


class ReplayGuard(Protocol):
    """Remembers which tokens were spent. Ten lines of your own are enough for one.

    `statebox.testing.check_replay_guard` tells whether yours keeps this contract:

    * Of any number of callers with one id, in whatever process, exactly one is told True.
    * An id is forgotten when its token has expired, and never earlier: not to make room either.
    * A guard that cannot tell raises, in time, whatever exception it likes. It never guesses.

    An attribute `timeout` says after how many seconds callers give up; without one it is 1. If
    `consume` has a third parameter `issued_at`, it is told when the token was sealed (seconds since
    1970), so that a guard that has lost its memory can refuse what is older than the loss.
    """

    async def consume(self, token_id: str, expires_at: int) -> bool:
        """Spend a token.

        Args:
            token_id: 32 hex digits that name the token.
            expires_at: When the token ends, in seconds since 1970.

        Returns:
            True the first time, False ever after.
        """
        ...


class AnswerStore(Protocol):
    """Keeps what was answered to a spent token, until the token has expired.

    All three guards are one as well. What is stored is sealed; a store need not keep it secret.
    """

    async def put(self, token_id: str, answer: bytes, expires_at: int) -> None:
        """Keep an answer; raises if it cannot.

        Args:
            token_id: 32 hex digits that name the token.
            answer: Any bytes.
            expires_at: When the token ends, in seconds since 1970.
        """
        ...

    async def get(self, token_id: str) -> bytes | None:
        """Give the answer, or None where there is none; raises if it cannot tell."""
        ...


class Presented(Protocol):
    """What single use needs to know of a token; a `Continuation` is one."""

    @property
    def token_id(self) -> str:
        """32 hex digits that name the token."""
        ...

    @property
    def key_id(self) -> str:
        """The kid of the key that sealed it."""
        ...

    @property
    def flow(self) -> str | None:
        """16 hex digits that name the flow, if it has one."""
        ...

    @property
    def round(self) -> int | None:
        """The round within the flow, from 1."""
        ...

    @property
    def issued_at(self) -> int:
        """When it was sealed, in seconds since 1970."""
        ...

    @property
    def expires_at(self) -> int:
        """When it ends, in seconds since 1970."""
        ...


async def spend(guard: ReplayGuard, turn: Presented, *, on_event: Hook | None = None) -> None:
    """Spend a token after it was opened, and before anything is done that may be done only once.

    Args:
        guard: Where spent tokens are remembered.
        turn: What `Statebox.open` gave.
        on_event: Called with a `GuardFailed` if the guard fails: `box.on_event`.

    Raises:
        ReplayedTokenError: The token was spent before.
        GuardUnavailableError: The guard failed, or gave no answer in time. Whether the token is
            spent now is unknown, so nobody was served and nobody will be.
    """
    try:
        await consume(guard, turn.token_id, turn.expires_at, turn.issued_at)
    except OpenError as error:
        if isinstance(error, GuardUnavailableError) and on_event is not None:
            on_event(GuardFailed(guard=type(guard).__name__, reason=error.message))
        error.key_id = turn.key_id
        error.token_id = turn.token_id
        error.flow = turn.flow
        error.round = turn.round
        error.issued_at = turn.issued_at
        error.expires_at = turn.expires_at
        raise


async def consume(guard: ReplayGuard, token_id: str, expires_at: int, issued_at: int) -> None:
    """Ask a guard, and take nothing but a plain True from it for leave to go on.

    Args:
        guard: Any guard; it may be a user's own.
        token_id: 32 hex digits that name the token.
        expires_at: When the token ends, in seconds since 1970.
        issued_at: When it was sealed, in seconds since 1970.

    Raises:
        ReplayedTokenError, GuardUnavailableError: As for `spend`.
    """
    timeout: float = getattr(guard, "timeout", DEFAULT_TIMEOUT)
    more = {"issued_at": issued_at} if _takes_issued_at(type(guard)) else {}
    try:
        async with asyncio.timeout(timeout):
            first: object = await guard.consume(token_id, expires_at, **more)
    except GuardUnavailableError:
        raise
    except TimeoutError as error:
        raise late(timeout) from error
    # INVARIANT: fails closed, whatever a guard may raise or give.
    except Exception as error:
        raise GuardUnavailableError(f"the guard raised {type(error).__name__}") from error
    if first is False:
        raise ReplayedTokenError("the token was spent before")
    if first is not True:
        raise GuardUnavailableError(f"the guard gave {type(first).__name__}, not bool")


def late(timeout: float) -> GuardUnavailableError:
    """Make the error for an answer that did not come in time."""
    return GuardUnavailableError(f"the guard gave no answer within {timeout:g} s")


def forgotten(store: str) -> GuardUnavailableError:
    """Make the error for a token that a store cannot vouch for, as it is older than its memory."""
    return GuardUnavailableError(
        f"the token is older than what {store} remembers, so it may have been spent",
        hint="The flow has to be started again. If this repeats, find out what empties the store.",
    )


@lru_cache(maxsize=64)
def _takes_issued_at(guard: type[ReplayGuard]) -> bool:
    return "issued_at" in inspect.signature(guard.consume).parameters
