"""statebox.replay.sqlite: a real file, with real locks, on a disk that can be full or gone."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from statebox import GuardUnavailableError
from statebox.replay import SQLiteGuard
from tests.accounts import as_root, nobody
from tests.accounts import open_folder as open_folder  # noqa: PLC0414 - a fixture
from tests.samples import NOW, Clock

END = NOW + 600
Make = Callable[..., SQLiteGuard]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spent.db"


@pytest.fixture
async def guard(path: Path) -> AsyncIterator[Make]:
    """Makes guards of one file whose clocks stand still, and closes them."""
    made: list[SQLiteGuard] = []

    def make(clock: Clock | None = None, timeout: float = 60) -> SQLiteGuard:
        made.append(SQLiteGuard(path, clock=clock or Clock(), timeout=timeout))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


def operator(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def ids(path: Path) -> set[str]:
    with closing(operator(path)) as connection:
        return {name for (name,) in connection.execute("SELECT id FROM spent")}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def break_(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def killed(path: Path, after: int) -> list[str]:
    """Let a process spend tokens, kill it, and give the ids that it said it had spent."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
    return [line.strip() for line in said if line.endswith("\n")]


async def test_a_file_outlives_the_guard(path: Path, guard: Make) -> None:
    assert await guard().consume("a", END)
    await guard().aclose()
    assert not await guard().consume("a", END)
    assert ids(path) == {"a"}


def test_only_its_owner_can_read_the_file(path: Path) -> None:
    before = os.umask(0)
    try:
        SQLiteGuard(path)
    finally:
        os.umask(before)
    assert mode(path) == 0o600


@pytest.mark.parametrize("loose", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_to_is_refused(path: Path, loose: int) -> None:
    path.touch()
    path.chmod(loose)
    with pytest.raises(GuardUnavailableError, match="others may write to it: chmod 600"):
        SQLiteGuard(path)


def test_a_folder_that_is_missing_is_found_at_the_start(path: Path) -> None:
    with pytest.raises(GuardUnavailableError, match="No such file or directory"):
        SQLiteGuard(path / "spent.db")


def test_a_file_of_another_kind_is_found_at_the_start(path: Path) -> None:
    path.write_text("not a database, and long enough to show it " * 10)
    path.chmod(0o600)
    with pytest.raises(GuardUnavailableError, match="file is not a database"):
        SQLiteGuard(path)


def test_a_file_that_somebody_has_locked_is_found_at_the_start(path: Path) -> None:
    path.touch(mode=0o600)
    with closing(operator(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(GuardUnavailableError, match="locked"):
            SQLiteGuard(path, timeout=0.05)
        connection.execute("ROLLBACK")
    SQLiteGuard(path, timeout=60)


@as_root
def test_a_folder_of_somebody_else_is_found_at_the_start(open_folder: Path) -> None:
    open_folder.chmod(0o755)
    with nobody(), pytest.raises(GuardUnavailableError, match="Permission denied"):
        SQLiteGuard(open_folder / "spent.db")


async def test_what_was_spent_is_on_the_disk_before_it_is_said_so(path: Path, guard: Make) -> None:
    await guard().consume("a", END)
    with closing(operator(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    # What a power failure would leave: the files as they are, without the process.
    copies = [path.with_name("copy.db"), path.with_name("copy.db-wal")]
    for copy, original in zip(copies, [path, path.with_name("spent.db-wal")], strict=True):
        copy.write_bytes(original.read_bytes())
    assert ids(copies[0]) == {"a"}


async def test_an_id_leaves_the_file_a_minute_after_its_token_ended(
    path: Path, guard: Make
) -> None:
    clock = Clock()
    a_guard = guard(clock)
    for i in range(10):
        assert await a_guard.consume(f"early {i}", NOW + 10)
    clock.now = NOW + 69
    assert await a_guard.consume("late", END)
    assert len(ids(path)) == 11
    clock.now = NOW + 70
    for i in range(3):
        assert await a_guard.consume(f"later {i}", END)
    assert ids(path) == {"late", "later 0", "later 1", "later 2"}
    assert not await a_guard.consume("early 0", NOW + 10)


async def test_an_answer_leaves_the_file_a_minute_after_its_token_ended(guard: Make) -> None:
    clock = Clock()
    a_guard = guard(clock)
    await a_guard.put("early", b"answer", NOW + 10)
    await a_guard.put("early", b"another answer", NOW + 10)
    assert await a_guard.get("early") == b"answer"
    clock.now = NOW + 69
    await a_guard.put("late", b"answer", END)
    assert await a_guard.get("early") == b"answer"
    clock.now = NOW + 70
    await a_guard.put("later", b"answer", END)
    assert await a_guard.get("early") is None
    assert await a_guard.get("late") == b"answer"


async def test_a_file_that_is_gone_keeps_and_gives_no_answer(path: Path, guard: Make) -> None:
    a_guard = guard()
    path.parent.rename(path.parent.with_name(f"{path.parent.name}-away"))
    with pytest.raises(GuardUnavailableError):
        await a_guard.put("a", b"answer", END)
    with pytest.raises(GuardUnavailableError):
        await a_guard.get("a")


async def test_a_token_that_ended_long_ago_is_never_accepted(guard: Make) -> None:
    assert not await guard().consume("a", NOW - 60)
    assert await guard().consume("b", NOW - 59)


async def test_what_was_sealed_before_the_file_was_made_is_refused(guard: Make) -> None:
    first = guard(Clock(NOW + 0.9))
    with pytest.raises(GuardUnavailableError, match="older than what the guard's file remembers"):
        await first.consume("a", END, NOW - 1)
    assert await first.consume("b", END, NOW)
    later = guard(Clock(NOW + 60))
    assert await later.consume("c", END, NOW)


async def test_a_locked_file_is_waited_for_and_the_event_loop_goes_on(
    path: Path, guard: Make
) -> None:
    a_guard = guard()
    with closing(operator(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        waiting = asyncio.create_task(a_guard.consume("a", END))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        # Only a loop that is free gets here.
        connection.execute("ROLLBACK")
    assert await waiting


async def test_a_file_that_stays_locked_refuses_the_token_and_is_used_again(
    path: Path, guard: Make
) -> None:
    a_guard = guard(timeout=0.05)
    with closing(operator(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(GuardUnavailableError):
            await a_guard.consume("a", END)
        connection.execute("ROLLBACK")
    # Nobody was told that it is spent, and whether it is does not matter: it is spent once.
    assert [await guard().consume("a", END) for _ in range(2)][1] is False
    assert await guard().consume("b", END)


async def test_a_token_whose_presenter_has_gone_is_left_unspent(path: Path, guard: Make) -> None:
    a_guard = guard(timeout=0.05)
    with closing(operator(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        answers = await asyncio.gather(
            *(a_guard.consume(f"{i}", END) for i in range(5)), return_exceptions=True
        )
        connection.execute("ROLLBACK")
    assert {type(answer) for answer in answers} == {GuardUnavailableError}
    await a_guard.aclose()
    assert len(ids(path)) <= 1  # the one that was under way


async def test_a_file_that_was_removed_is_made_again_and_vouches_for_nothing_older(
    path: Path, guard: Make
) -> None:
    clock = Clock()
    here, there = guard(clock), guard(clock)
    assert await here.consume("a", END, NOW)
    assert not await there.consume("a", END, NOW)
    for each in path.parent.glob("spent.db*"):
        each.unlink()
    clock.now = NOW + 5
    with pytest.raises(GuardUnavailableError, match="older than what the guard's file remembers"):
        await here.consume("a", END, NOW)
    assert await here.consume("b", END, NOW + 5)
    assert not await there.consume("b", END, NOW + 5)
    assert mode(path) == 0o600


async def test_an_older_copy_that_is_put_back_vouches_for_nothing_older(
    path: Path, guard: Make
) -> None:
    """A backup that an operator restores does not know what was spent since."""
    clock = Clock()
    a_guard = guard(clock)
    assert await a_guard.consume("a", END, NOW)
    await a_guard.aclose()
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    clock.now = NOW + 60
    assert await a_guard.consume("b", END, NOW)
    for each in path.parent.glob("spent.db*"):
        each.unlink()
    copy.rename(path)
    with pytest.raises(GuardUnavailableError, match="older than what the guard's file remembers"):
        await a_guard.consume("b", END, NOW)
    clock.now = NOW + 65
    assert await a_guard.consume("c", END, NOW + 65)
    # Another process that opens the copy now is told the same.
    with pytest.raises(GuardUnavailableError, match="older than what the guard's file remembers"):
        await guard(clock).consume("b", END, NOW)


async def test_a_file_whose_folder_is_gone_refuses_until_it_is_back(
    path: Path, guard: Make
) -> None:
    a_guard = guard()
    away = path.parent.with_name(f"{path.parent.name}-away")
    path.parent.rename(away)
    with pytest.raises(GuardUnavailableError, match="No such file or directory"):
        await a_guard.consume("a", END, NOW)
    away.rename(path.parent)
    assert await a_guard.consume("a", END, NOW)


async def test_a_broken_file_refuses(path: Path, guard: Make) -> None:
    a_guard = guard()
    assert await a_guard.consume("a", END)
    await a_guard.aclose()
    break_(path)
    with pytest.raises(GuardUnavailableError, match="file is not a database"):
        guard()


async def test_a_folder_may_be_left_after_the_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    a_guard = SQLiteGuard("spent.db", clock=Clock(), timeout=60)
    monkeypatch.chdir("/")
    assert await a_guard.consume("a", END)
    await a_guard.aclose()
    assert ids(path) == {"a"}


FULL_DISK = """
import asyncio, resource, signal, sys
from statebox import GuardUnavailableError
from statebox.replay import SQLiteGuard

async def main():
    guard = SQLiteGuard(sys.argv[1], timeout=60)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    spent, i = [], 0
    while True:
        try:
            assert await guard.consume(f"{i}", 1 << 34)
        except GuardUnavailableError as error:
            message = error.message
            break
        i += 1
    assert not any([await guard.consume(f"{n}", 1 << 34) for n in range(i)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert await guard.consume("room again", 1 << 34)
    await guard.aclose()
    print(i, message)

asyncio.run(main())
"""


def test_a_full_disk_refuses_forgets_nothing_and_is_used_again(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    count, _, message = done.stdout.partition(" ")
    assert int(count) > 0
    assert message.startswith("the guard's file gave no answer: ")


KILLED = """
import asyncio, sys
from statebox.replay import SQLiteGuard

async def main():
    guard, i = SQLiteGuard(sys.argv[1], timeout=60), 0
    while await guard.consume(f"{i}", 1 << 34):
        print(i, flush=True)
        i += 1

asyncio.run(main())
"""


async def test_what_a_killed_process_had_spent_stays_spent(path: Path, guard: Make) -> None:
    spent = killed(path, after=20)
    assert len(spent) >= 20
    a_guard = guard()
    for each in spent:
        assert not await a_guard.consume(each, 1 << 34)
