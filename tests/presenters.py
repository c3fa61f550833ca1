"""Processes that present the same tokens to one store at the same time."""

import asyncio
import multiprocessing
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Semaphore

from statebox import GuardUnavailableError
from statebox.replay import RedisGuard, SQLiteGuard

_SPAWN = multiprocessing.get_context("spawn")
_AT_ONCE = 20
_PATIENCE = 120  # seconds; after it a test fails instead of hanging

Outcome = bool | None
"""What a presenter was told: True (served), False (spent before), None (the guard cannot tell)."""
Batch = tuple[list[str], int]
"""The tokens to present, and when they were sealed, in seconds since 1970."""


@dataclass
class Presenters:
    """Some processes with a guard each, which present what they are given, all together.

    Attributes:
        store: An SQLite file's path, or a Redis's URL.
        processes: How many.
        timeout: The guards', in seconds.
        durable: Whether the Redis is said to lose nothing.
    """

    store: str
    processes: int
    timeout: float
    durable: bool = False
    _batches: list["Queue[Batch | None]"] = field(default_factory=list["Queue[Batch | None]"])
    _answered: Semaphore = field(default_factory=lambda: _SPAWN.Semaphore(0))
    _outcomes: "Queue[list[Outcome]]" = field(default_factory=_SPAWN.Queue)

    def begin(self, ids: list[str], issued_at: int) -> None:
        """Let each process present each token once; issued_at is in seconds since 1970."""
        for batch in self._batches:
            batch.put((ids, issued_at))

    def wait_for_answers(self, count: int) -> None:
        """Wait until so many more tokens were answered, over all processes."""
        for _ in range(count):
            assert self._answered.acquire(timeout=_PATIENCE), "the presenters hang"

    def winners(self) -> tuple[Counter[int], Counter[Outcome]]:
        """Wait for all processes; count how many were served for each token, and all answers."""
        served, answers = Counter[int](), Counter[Outcome]()
        for _ in range(self.processes):
            outcomes = self._outcomes.get(timeout=_PATIENCE)
            served.update(dict.fromkeys(range(len(outcomes)), 0))
            served.update([i for i, outcome in enumerate(outcomes) if outcome])
            answers.update(outcomes)
        return served, answers

    def _guard(self) -> Callable[[], RedisGuard | SQLiteGuard]:
        if "://" in self.store:
            return partial(RedisGuard, self.store, timeout=self.timeout, durable=self.durable)
        return partial(SQLiteGuard, self.store, timeout=self.timeout)

    @contextmanager
    def running(self) -> Generator["Presenters"]:
        """Run the processes for the length of a `with` block."""
        barrier = _SPAWN.Barrier(self.processes)
        running: list[BaseProcess] = []
        for _ in range(self.processes):
            batches: Queue[Batch | None] = _SPAWN.Queue()
            self._batches.append(batches)
            running.append(
                _SPAWN.Process(
                    target=_presenter,
                    args=(self._guard(), barrier, batches, self._answered, self._outcomes),
                )
            )
            running[-1].start()
        try:
            yield self
            for batches in self._batches:
                batches.put(None)
            for process in running:
                process.join(_PATIENCE)
                assert process.exitcode == 0
        finally:
            for process in running:
                process.kill()
                process.join()


def _presenter(
    make: Callable[[], RedisGuard | SQLiteGuard],
    barrier: Barrier,
    batches: "Queue[Batch | None]",
    answered: Semaphore,
    outcomes: "Queue[list[Outcome]]",
) -> None:
    guard = make()

    async def present(token_id: str, issued_at: int, room: asyncio.Semaphore) -> Outcome:
        async with room:
            try:
                return await guard.consume(token_id, issued_at + 600, issued_at)
            except GuardUnavailableError:
                return None
            finally:
                answered.release()

    async def run() -> None:
        while batch := await asyncio.to_thread(batches.get):
            ids, issued_at = batch
            room = asyncio.Semaphore(_AT_ONCE)
            # All begin together, so that each token is presented by all at once.
            await asyncio.to_thread(barrier.wait, _PATIENCE)
            outcomes.put(await asyncio.gather(*(present(each, issued_at, room) for each in ids)))
        await guard.aclose()

    asyncio.run(run())
