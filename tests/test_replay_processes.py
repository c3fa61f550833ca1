"""statebox.replay: many processes present the same tokens, and the store fails in the middle.

`tests/soak` runs the same with more of everything.
"""

import time
from pathlib import Path

from statebox.replay import SQLiteGuard
from tests.presenters import Presenters
from tests.redis_process import DURABLE, FORGETFUL, RedisProcess
from tests.redis_process import redis as redis  # noqa: PLC0414 - a fixture

PROCESSES, TOKENS = 3, 150


# Sealed by a clock that is half a minute ahead, so after a loss for certain, without any waiting.
AHEAD = 30


def now(ahead: int = 0) -> int:
    return int(time.time()) + ahead


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{i}" for i in range(count)]


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


def test_of_all_processes_with_one_sqlite_file_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "spent.db"
    SQLiteGuard(path)  # as a server does at its start, before it seals anything
    race(str(path), PROCESSES, TOKENS)


def test_of_all_processes_with_one_redis_one_wins(redis: RedisProcess) -> None:
    race(redis.url, PROCESSES, TOKENS)


def test_a_redis_that_loses_its_memory_in_mid_run_makes_no_second_winner(
    redis: RedisProcess,
) -> None:
    lose_the_memory(redis, PROCESSES, TOKENS)


def test_a_redis_that_is_paused_and_killed_in_mid_run_makes_no_second_winner(
    redis: RedisProcess,
) -> None:
    kill_and_pause(redis, PROCESSES, TOKENS)
