"""Checks that your own tests can run: of a replay guard that you wrote.

They are plain coroutines without a test framework. What does not hold is an AssertionError that
says so in a sentence.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Final

from statebox.replay import ReplayGuard
from statebox.replay.guard import DEFAULT_TIMEOUT

_LIFE: Final = 600  # seconds


async def check_replay_guard(
    make: Callable[[], ReplayGuard], *, racers: int = 50, others: int = 1000
) -> None:
    """Check that a guard keeps the contract of `statebox.replay.ReplayGuard`.

    Args:
        make: Makes a guard; called twice, for two replicas that share one store. For a store of one
            process, give the same guard twice.
        racers: How many presenters race for one token.
        others: How many tokens are spent after the first, which must not be forgotten for them.

    Raises:
        AssertionError: What does not hold.
    """
    here, there = make(), make()
    end = int(time.time()) + _LIFE
    first = secrets.token_hex(16)
    _accepted(await here.consume(first, end), "a new token was refused")
    _refused(await here.consume(first, end), "a spent token was accepted again")
    _refused(await there.consume(first, end), "another replica accepted a spent token")
    _refused(await here.consume(first, end + 1), "another expiry made a spent token new")
    raced = secrets.token_hex(16)
    answers = await asyncio.gather(
        *((here, there)[i % 2].consume(raced, end) for i in range(racers))
    )
    if (winners := answers.count(True)) != 1:
        raise AssertionError(f"of {racers} presenters of one token {winners} were accepted, not 1")
    for _ in range(others):
        _accepted(await here.consume(secrets.token_hex(16), end), "a new token was refused")
    _refused(await there.consume(first, end), "a spent token was forgotten to make room")


async def check_replay_guard_fails_closed(guard: ReplayGuard) -> None:
    """Check that a guard whose store you took away accepts nothing, and says so in time.

    Args:
        guard: A guard whose store is down, full, locked or out of reach.

    Raises:
        AssertionError: It gave an answer, or none before its `timeout` (1 second without one).
    """
    # Twice the time that callers give it: a test is not to fail for a busy machine.
    patience: float = 2 * getattr(guard, "timeout", DEFAULT_TIMEOUT)
    answer = asyncio.ensure_future(guard.consume(secrets.token_hex(16), int(time.time()) + _LIFE))
    done, _ = await asyncio.wait({answer}, timeout=patience)
    if not done:
        answer.cancel()
        raise AssertionError(f"without its store the guard was silent for {patience:g} s")
    # Whatever a guard raises refuses the token.
    if answer.exception() is None:
        raise AssertionError(
            f"without its store the guard gave {answer.result()!r} instead of raising"
        )


def _accepted(answer: object, otherwise: str) -> None:
    if answer is not True:
        raise AssertionError(f"{otherwise}: consume gave {answer!r}, not True")


def _refused(answer: object, otherwise: str) -> None:
    if answer is not False:
        raise AssertionError(f"{otherwise}: consume gave {answer!r}, not False")
