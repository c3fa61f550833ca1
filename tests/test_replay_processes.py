"""statebox.replay: many processes present the same tokens, and the store fails in the middle.

`python -m tests.soak.single_use` does the same with more of everything.
"""

from pathlib import Path

from tests.redis_process import RedisProcess
from tests.redis_process import redis as redis  # noqa: PLC0414 - a fixture
from tests.soak.single_use import kill_and_pause, lose_the_memory, race_in_redis, race_in_sqlite

PROCESSES, TOKENS = 3, 150


def test_of_all_processes_with_one_sqlite_file_one_wins(tmp_path: Path) -> None:
    race_in_sqlite(tmp_path, PROCESSES, TOKENS)


def test_of_all_processes_with_one_redis_one_wins(redis: RedisProcess) -> None:
    race_in_redis(redis, PROCESSES, TOKENS)


def test_a_redis_that_loses_its_memory_in_mid_run_makes_no_second_winner(
    redis: RedisProcess,
) -> None:
    lose_the_memory(redis, PROCESSES, TOKENS)


def test_a_redis_that_is_paused_and_killed_in_mid_run_makes_no_second_winner(
    redis: RedisProcess,
) -> None:
    kill_and_pause(redis, PROCESSES, TOKENS)
