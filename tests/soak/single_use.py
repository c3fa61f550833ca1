"""Processes present the same tokens, all at once, to a store that fails in the middle.

    python -m tests.soak.single_use --processes 8 --tokens 1000

Watched: each token has exactly one winner in SQLite and in Redis; none has two when the Redis loses
its memory, is paused or is killed; and the same processes go on when it is back.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from statebox.replay import SQLiteGuard
from tests.presenters import Presenters
from tests.redis_process import DURABLE, FORGETFUL, RedisProcess

# Sealed by a clock that is half a minute ahead, so after a loss for certain, without any waiting.
AHEAD = 30


def now(ahead: int = 0) -> int:
    return int(time.time()) + ahead


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{i}" for i in range(count)]


def race_in_sqlite(folder: Path, processes: int, tokens: int) -> None:
    """Let all processes present all tokens to one file."""
    path = folder / "spent.db"
    SQLiteGuard(path)  # as a server does at its start, before it seals anything
    race(str(path), processes, tokens)


def race_in_redis(redis: RedisProcess, processes: int, tokens: int) -> None:
    """Let all processes present all tokens to one Redis."""
    race(redis.url, processes, tokens)


def race(store: str, processes: int, tokens: int) -> None:
    """Let all processes present all tokens, and see one winner of each."""
    with Presenters(store, processes, timeout=60).running() as presenters:
        presenters.begin(names("raced", tokens), now())
        served, answers = presenters.winners()
    assert set(served.values()) == {1}
    assert answers == {True: tokens, False: tokens * (processes - 1)}


def lose_the_memory(redis: RedisProcess, processes: int, tokens: int) -> None:
    """Kill a Redis that keeps nothing while all present all tokens, and start it again."""
    with Presenters(redis.url, processes, timeout=1).running() as presenters:
        ids, sealed = names("raced", tokens), now()
        presenters.begin(ids, sealed)
        presenters.wait_for_answers(tokens // 2)
        redis.kill()
        presenters.wait_for_answers(processes)
        redis.start(*FORGETFUL)
        served, first = presenters.winners()
        presenters.begin(ids, sealed)
        again, second = presenters.winners()
        presenters.begin(names("fresh", tokens), now(AHEAD))
        fresh, third = presenters.winners()
    assert max((served + again).values()) == 1, "a token had two winners"
    assert first[True] > 0
    assert first[None] > 0, "the Redis was killed too late"
    assert second[True] == 0, "the Redis vouched for tokens from before its loss"
    # The same processes go on.
    assert set(fresh.values()) == {1}
    assert third == {True: tokens, False: tokens * (processes - 1)}


def kill_and_pause(redis: RedisProcess, processes: int, tokens: int) -> None:
    """Kill and pause a Redis that keeps everything while all present all tokens."""
    redis.restart(*DURABLE)
    with Presenters(redis.url, processes, timeout=1, durable=True).running() as presenters:
        ids, sealed = names("raced", tokens), now()
        presenters.begin(ids, sealed)
        presenters.wait_for_answers(tokens // 2)
        redis.pause()
        presenters.wait_for_answers(processes)
        redis.resume()
        presenters.wait_for_answers(tokens // 2)
        redis.restart(*DURABLE)
        served, first = presenters.winners()
        presenters.begin(ids, sealed)
        again, second = presenters.winners()
        presenters.begin(names("fresh", tokens), now(AHEAD))
        fresh, third = presenters.winners()
    assert max((served + again).values()) == 1, "a token had two winners"
    assert first[None] > 0, "the Redis was paused too late"
    # All are answered now; a token without a winner was spent for one whom the answer never reached.
    assert second[None] == 0
    assert set(fresh.values()) == {1}
    assert third == {True: tokens, False: tokens * (processes - 1)}


def main() -> None:
    """Run everything as asked on the command line; what does not hold is an AssertionError."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=1000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _timed(
            "a race in SQLite", lambda: race_in_sqlite(Path(folder), asked.processes, asked.tokens)
        )
    for name, run in (
        ("a race in Redis", race_in_redis),
        ("a Redis that loses its memory", lose_the_memory),
        ("a durable Redis, paused and killed", kill_and_pause),
    ):
        with tempfile.TemporaryDirectory() as folder:
            redis = RedisProcess(Path(folder))
            redis.start(*FORGETFUL)
            try:
                _timed(name, partial(run, redis, asked.processes, asked.tokens))
            finally:
                redis.kill()


def _timed(name: str, run: Callable[[], None]) -> None:
    began = time.monotonic()
    run()
    print(f"{name}: held, {time.monotonic() - began:.1f} s")  # noqa: T201 - the report


if __name__ == "__main__":
    main()
