"""Single use within one process."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from typing import Final, final

from statebox.errors import GuardUnavailableError
from statebox.replay.guard import KEPT_AFTER_EXPIRY, forgotten

DEFAULT_MAX_IDS: Final = 1_000_000  # about 300 MB


@final
class MemoryGuard:
    """Remembers spent tokens in this process, for as long as it lives.

    For a server of exactly one process. Two processes with a `MemoryGuard` each accept each token
    once each. What was sealed before the guard was made is refused, for a former process may have
    spent it.

    Args:
        max_ids: How many unexpired ids there may be. Beyond it the guard is full and refuses
            tokens; it never forgets one to make room.
        clock: Gives the time in seconds since 1970.
    """

    def __init__(
        self, *, max_ids: int = DEFAULT_MAX_IDS, clock: Callable[[], float] = time.time
    ) -> None:
        self._max_ids = max_ids
        self._clock = clock
        self._since = int(clock())
        self._spent: dict[str, object] = {}
        self._answers: dict[str, bytes] = {}
        self._by_expiry: dict[int, list[str]] = {}  # what ends in one second, together ...
        self._seconds: list[int] = []  # ... and those seconds, as a heap
        self._lock = threading.Lock()  # for the last two: event loops of several threads may share

    async def consume(self, token_id: str, expires_at: int, issued_at: int | None = None) -> bool:
        """Spend a token; see `ReplayGuard`.

        Args:
            token_id: 32 hex digits that name the token.
            expires_at: When the token ends, in seconds since 1970.
            issued_at: When it was sealed, in seconds since 1970; None: not known.

        Returns:
            True the first time, False ever after.

        Raises:
            GuardUnavailableError: The token is older than the guard, or the guard is full.
        """
        spent = self._spent
        horizon = self._clock() - KEPT_AFTER_EXPIRY
        if self._seconds and self._seconds[0] <= horizon:
            self._forget(horizon)
        # An id as old as those that are forgotten may be one of them.
        if token_id in spent or expires_at <= horizon:
            return False
        if issued_at is not None and issued_at < self._since:
            raise forgotten("this process")
        if len(spent) >= self._max_ids:
            raise GuardUnavailableError(
                f"the guard is full: {self._max_ids} unexpired ids",
                hint="Raise max_ids, or use an SQLiteGuard or a RedisGuard.",
            )
        # INVARIANT: looking and adding are one step, so of several threads only one is the first.
        mine = object()
        if spent.setdefault(token_id, mine) is not mine:
            return False
        (self._by_expiry.get(expires_at) or self._new_second(expires_at)).append(token_id)
        return True

    async def put(self, token_id: str, answer: bytes, expires_at: int) -> None:
        """Keep the answer to a token that this guard spent; see `AnswerStore`."""
        if token_id in self._spent and expires_at > self._clock() - KEPT_AFTER_EXPIRY:
            self._answers[token_id] = answer

    async def get(self, token_id: str) -> bytes | None:
        """Give the answer to a token, or None; see `AnswerStore`."""
        return self._answers.get(token_id)

    def _new_second(self, expires_at: int) -> list[str]:
        with self._lock:
            if expires_at not in self._by_expiry:
                heapq.heappush(self._seconds, expires_at)
            return self._by_expiry.setdefault(expires_at, [])

    def _forget(self, horizon: float) -> None:
        with self._lock:
            while self._seconds and self._seconds[0] <= horizon:
                for token_id in self._by_expiry.pop(heapq.heappop(self._seconds)):
                    del self._spent[token_id]
                    self._answers.pop(token_id, None)
