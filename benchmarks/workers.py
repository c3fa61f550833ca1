"""Several threads with one box, and several processes with one ring: what a round trip takes in each.

Measured as processor time, like everything here: it grows with whatever threads or processes cost
each other, and not with what else the machine does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import repeat
from multiprocessing import get_context
from typing import Final

from benchmarks.cases import AUDIENCE, MAP, MODES, ring_of, sealing
from benchmarks.measuring import Call, Effort, Rounds, Turn
from benchmarks.rows import Row, Target
from statebox import Keyring, Statebox

THREADS: Final = Target(
    "processor time of a round trip in each of N threads, over one in one thread", None
)
PROCESSES: Final = Target("the same for processes", None)
COUNTS: Final = (2, 4)

_call: dict[str, Call] = {}


def threads(effort: Effort) -> Iterator[Row]:
    """One box shared by threads: there is no lock in it, so only the interpreter's is felt.

    It is handed over at every `os.urandom` and AES call, which costs processor time where a core is
    free to take it: about 2 then, and 1 where none is.
    """
    yield from _compare(THREADS, effort, thread_pool)


def processes(effort: Effort) -> Iterator[Row]:
    """One ring in several processes, as the replicas of a server have it."""
    yield from _compare(PROCESSES, effort, process_pool)


@contextmanager
def thread_pool(alg: str, workers: int) -> Generator[Executor]:
    """Make threads that share a box."""
    _prepare(alg, ring_of(1, alg).to_json())
    with ThreadPoolExecutor(workers) as pool:
        yield pool


@contextmanager
def process_pool(alg: str, workers: int) -> Generator[Executor]:
    """Make processes that each have a box over the same ring, and have done their imports."""
    ring = ring_of(1, alg).to_json()
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_prepare, initargs=(alg, ring)
    ) as pool:
        round_trips(pool, alg, workers * 4, 100)
        yield pool


def round_trips(pool: Executor, alg: str, workers: int, count: int) -> float:
    """Let every worker do so many round trips at the same time.

    Args:
        pool: The threads or processes.
        alg: The mode.
        workers: How many shall work.
        count: How many round trips each does.

    Returns:
        The processor time of one round trip, in seconds, as the mean of all.
    """
    taken = list(pool.map(_work, repeat(alg, workers), repeat(count, workers)))
    return sum(taken) / workers / count


def _compare(
    target: Target, effort: Effort, pool_of: Callable[[str, int], AbstractContextManager[Executor]]
) -> Iterator[Row]:
    count = max(1, int(effort.span * 200_000))  # some milliseconds, so that all are at work at once
    for alg in MODES:
        with ExitStack() as stack:
            pools = {
                workers: stack.enter_context(pool_of(alg, workers)) for workers in (1, *COUNTS)
            }
            turns: list[Turn] = [
                {
                    str(workers): round_trips(pool, alg, workers, count)
                    for workers, pool in pools.items()
                }
                for _ in range(max(1, effort.rounds // 10))
            ]
        for workers in COUNTS:
            ratio = Rounds(turns).ratio(str(workers), "1")
            yield Row(target, f"{workers} on {os.cpu_count()} cores, {alg}", ratio)


def _prepare(alg: str, ring: str) -> None:
    box = Statebox(Keyring.from_json(ring), audience=AUDIENCE)
    _call[alg] = sealing(box, MAP, bound=True).both


def _work(alg: str, count: int) -> float:
    call = _call[alg]
    start = time.thread_time()
    for _ in repeat(None, count):
        call()
    return time.thread_time() - start
