"""statebox.replay: what every guard keeps, and what spending a token does with what a guard says."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from statebox import Continuation, GuardUnavailableError, ReplayedTokenError
from statebox.events import Event, GuardFailed
from statebox.replay import MemoryGuard, RedisGuard, ReplayGuard, SQLiteGuard, spend
from statebox.testing import check_replay_guard, check_replay_guard_fails_closed
from tests.redis_process import RedisProcess
from tests.redis_process import redis as redis  # noqa: PLC0414 - a fixture
from tests.samples import NOW, REQUEST, Clock, box

Make = Callable[[], ReplayGuard]


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Make]:
    guards: list[SQLiteGuard] = []

    def make() -> SQLiteGuard:
        guards.append(SQLiteGuard(tmp_path / "spent.db", timeout=60))
        return guards[-1]

    yield make
    for guard in guards:
        await guard.aclose()


@pytest.fixture
async def fleet(redis: RedisProcess) -> AsyncIterator[Make]:
    guards: list[RedisGuard] = []

    def make() -> RedisGuard:
        guards.append(RedisGuard(redis.url, timeout=60))
        return guards[-1]

    yield make
    for guard in guards:
        await guard.aclose()


def turn() -> Continuation:
    a_box = box()
    token = a_box.seal("state", principal=None, request=REQUEST)
    return a_box.open(token, principal=None, request=REQUEST)


def same(guard: ReplayGuard) -> Make:
    return lambda: guard


async def test_a_memory_guard_keeps_the_contract() -> None:
    guard = MemoryGuard()
    await check_replay_guard(same(guard))


async def test_an_sqlite_guard_keeps_the_contract(sqlite: Make) -> None:
    await check_replay_guard(sqlite, others=100)


async def test_a_redis_guard_keeps_the_contract(fleet: Make) -> None:
    await check_replay_guard(fleet)


class Guard:
    """A guard of a user's, in the few lines that it takes, or one that gives what it is told to."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.spent: set[str] = set()

    async def consume(self, token_id: str, expires_at: int) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
        new = token_id not in self.spent
        self.spent.add(token_id)
        return new


async def test_a_guard_of_ten_lines_keeps_the_contract() -> None:
    guard = Guard()
    await check_replay_guard(same(guard))


async def test_a_token_is_spent_once() -> None:
    guard, a_turn = Guard(), turn()
    await spend(guard, a_turn)
    with pytest.raises(ReplayedTokenError) as caught:
        await spend(guard, a_turn)
    assert guard.spent == {a_turn.token_id}
    assert caught.value.token_id == a_turn.token_id
    assert caught.value.key_id == a_turn.key_id
    assert (caught.value.flow, caught.value.round) == (a_turn.flow, 1)
    assert (caught.value.issued_at, caught.value.expires_at) == (NOW, NOW + 600)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (OSError("spam"), "the guard raised OSError"),
        (TimeoutError(), "the guard gave no answer within 1 s"),
        (1, "the guard gave int, not bool"),
        ("", "the guard gave str, not bool"),
        (GuardUnavailableError("it is shut"), "it is shut"),
    ],
    ids=str,
)
async def test_whatever_else_a_guard_does_refuses_the_token(answer: object, reason: str) -> None:
    events: list[Event] = []
    a_turn = turn()
    with pytest.raises(GuardUnavailableError) as caught:
        await spend(Guard(answer), a_turn, on_event=events.append)
    assert caught.value.message == reason
    assert caught.value.flow == a_turn.flow
    assert events == [GuardFailed(guard="Guard", reason=reason)]


class Silent:
    """A guard that never answers."""

    timeout = 0.01

    async def consume(self, token_id: str, expires_at: int) -> bool:
        await asyncio.Event().wait()
        return True


async def test_a_guard_that_does_not_answer_is_not_waited_for() -> None:
    with pytest.raises(GuardUnavailableError, match=r"no answer within 0\.01 s"):
        await spend(Silent(), turn())


async def test_a_spent_token_is_no_failure_of_the_guard() -> None:
    events: list[Event] = []
    with pytest.raises(ReplayedTokenError):
        await spend(Guard(answer=False), turn(), on_event=events.append)
    assert events == []


class Dated:
    """A guard that wants to know when the token was sealed."""

    def __init__(self) -> None:
        self.told: list[object] = []

    async def consume(self, token_id: str, expires_at: int, issued_at: int | None = None) -> bool:
        self.told.append((token_id, expires_at, issued_at))
        return True


async def test_a_guard_that_asks_for_it_is_told_when_the_token_was_sealed() -> None:
    guard, a_turn = Dated(), turn()
    await spend(guard, a_turn)
    assert guard.told == [(a_turn.token_id, NOW + 600, NOW)]


async def test_a_guard_without_its_store_is_found_to_fail_closed(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    guard = SQLiteGuard(folder / "spent.db", timeout=60)
    shutil.rmtree(folder)
    await check_replay_guard_fails_closed(guard)
    await guard.aclose()


@pytest.mark.parametrize("guard", [Guard(), Guard(answer=False)], ids=["guesses", "refuses"])
async def test_a_guard_that_answers_without_its_store_is_found_out(guard: ReplayGuard) -> None:
    with pytest.raises(AssertionError, match="instead of raising"):
        await check_replay_guard_fails_closed(guard)


async def test_a_guard_that_is_silent_without_its_store_is_found_out() -> None:
    with pytest.raises(AssertionError, match=r"silent for 0\.02 s"):
        await check_replay_guard_fails_closed(Silent())


class Forgetful(Guard):
    """Forgets the oldest to make room."""

    async def consume(self, token_id: str, expires_at: int) -> bool:
        if len(self.spent) > 100:
            self.spent.clear()
        return await super().consume(token_id, expires_at)


class Racy(Guard):
    """Looks first, and adds later."""

    async def consume(self, token_id: str, expires_at: int) -> bool:
        new = token_id not in self.spent
        await asyncio.sleep(0)
        self.spent.add(token_id)
        return new


class ByExpiry(Guard):
    """Takes the expiry for a part of the name."""

    async def consume(self, token_id: str, expires_at: int) -> bool:
        return await super().consume(f"{token_id} {expires_at}", expires_at)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (Guard, "another replica accepted a spent token"),
        (same(Forgetful()), "forgotten to make room"),
        (same(Racy()), "of 50 presenters of one token"),
        (same(ByExpiry()), "another expiry made a spent token new"),
        (lambda: Guard(answer=True), "a spent token was accepted again"),
        (lambda: Guard(answer=False), "a new token was refused"),
        (lambda: Guard(answer=1), "a new token was refused: consume gave 1, not True"),
    ],
)
async def test_a_guard_that_breaks_the_contract_is_found_out(make: Make, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        await check_replay_guard(make)


async def test_a_full_memory_guard_refuses_and_forgets_nothing() -> None:
    guard = MemoryGuard(max_ids=2, clock=Clock())
    assert await guard.consume("a", NOW + 60)
    assert await guard.consume("b", NOW + 60)
    with pytest.raises(GuardUnavailableError, match="full: 2 unexpired ids"):
        await guard.consume("c", NOW + 60)
    assert not await guard.consume("a", NOW + 60)


async def test_an_id_leaves_memory_a_minute_after_its_token_ended() -> None:
    clock = Clock()
    guard = MemoryGuard(max_ids=2, clock=clock)
    assert await guard.consume("a", NOW + 10)
    assert await guard.consume("b", NOW + 11)
    clock.now = NOW + 69
    assert not await guard.consume("a", NOW + 10)
    with pytest.raises(GuardUnavailableError):
        await guard.consume("c", NOW + 600)
    clock.now = NOW + 70
    assert await guard.consume("c", NOW + 600)
    assert not await guard.consume("b", NOW + 11)


async def test_memory_never_accepts_a_token_that_may_be_forgotten_already() -> None:
    guard = MemoryGuard(clock=Clock())
    assert not await guard.consume("a", NOW - 60)
    assert await guard.consume("b", NOW - 59)


async def test_what_was_sealed_before_the_process_began_is_refused() -> None:
    guard = MemoryGuard(clock=Clock(NOW + 0.9))
    with pytest.raises(GuardUnavailableError, match="older than what this process remembers"):
        await guard.consume("a", NOW + 60, NOW - 1)
    assert await guard.consume("b", NOW + 60, NOW)


async def test_event_loops_in_several_threads_share_a_memory_guard() -> None:
    guard = MemoryGuard()
    ids = [f"{i:032x}" for i in range(2000)]

    def present_all() -> int:
        async def count() -> int:
            return sum([await guard.consume(each, NOW * 2) for each in ids])

        return asyncio.run(count())

    counts = await asyncio.gather(*(asyncio.to_thread(present_all) for _ in range(4)))
    assert sum(counts) == len(ids)


async def check_answer_store(make: Callable[[], ReplayGuard]) -> None:
    here, there = make(), make()
    assert isinstance(here, MemoryGuard | SQLiteGuard | RedisGuard)
    assert isinstance(there, MemoryGuard | SQLiteGuard | RedisGuard)
    end = int(time.time()) + 600
    assert await here.get("a") is None
    assert await here.consume("a", end)
    assert await there.get("a") is None
    await here.put("a", b"the \0 answer", end)
    assert await here.get("a") == b"the \0 answer"
    assert await there.get("a") == b"the \0 answer"
    assert await there.get("b") is None
    assert not await there.consume("a", end)


async def test_memory_keeps_an_answer() -> None:
    await check_answer_store(same(MemoryGuard()))


async def test_sqlite_keeps_an_answer_for_all_processes(sqlite: Make) -> None:
    await check_answer_store(sqlite)


async def test_redis_keeps_an_answer_for_all_replicas(fleet: Make) -> None:
    await check_answer_store(fleet)


async def test_an_answer_leaves_memory_with_the_id() -> None:
    clock = Clock()
    guard = MemoryGuard(clock=clock)
    assert await guard.consume("a", NOW + 10)
    await guard.put("a", b"answer", NOW + 10)
    clock.now = NOW + 69
    assert not await guard.consume("b", NOW + 5)
    assert await guard.get("a") == b"answer"
    clock.now = NOW + 70
    assert not await guard.consume("b", NOW + 5)
    assert await guard.get("a") is None


async def test_memory_keeps_no_answer_that_nothing_would_ever_remove() -> None:
    guard = MemoryGuard(clock=Clock())
    await guard.put("never spent", b"answer", NOW + 10)
    assert await guard.get("never spent") is None
