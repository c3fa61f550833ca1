"""statebox.replay.redis: a real Redis that is killed, paused, emptied, filled and taken over from."""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from statebox import GuardUnavailableError
from statebox.replay import RedisGuard
from statebox.replay import redis as redis_module
from tests.redis_process import DURABLE, FORGETFUL, RedisProcess
from tests.redis_process import redis as redis  # noqa: PLC0414 - a fixture
from tests.samples import NOW, Clock

# The guards' clock stands still, so a token's age is what a test says. The memory of the Redis ages
# by the Redis's own clock: a token that is far older than the test is older than that memory, and
# one from ahead of the clock is younger.
END = NOW + 600
OLD, YOUNG = NOW - 3600, NOW + 30
Make = Callable[..., RedisGuard]


@pytest.fixture
async def guard(redis: RedisProcess) -> AsyncIterator[Make]:
    """Makes guards of one Redis, and closes them."""
    made: list[RedisGuard] = []

    def make(timeout: float = 60, *, durable: bool = False, url: str | None = None) -> RedisGuard:
        made.append(RedisGuard(url or redis.url, clock=Clock(), timeout=timeout, durable=durable))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


@pytest.fixture
def replica(redis: RedisProcess) -> Iterator[RedisProcess]:
    """A second Redis, which has copied the first."""
    with tempfile.TemporaryDirectory() as folder:
        process = RedisProcess(Path(folder))
        process.start("--replicaof", "127.0.0.1", str(redis.port), *FORGETFUL)
        yield process
        process.kill()


async def answer(guard: RedisGuard, token_id: str, issued_at: int | None = None) -> object:
    """Present a token: True, False, or what the guard said instead."""
    try:
        return await guard.consume(token_id, END, issued_at)
    except GuardUnavailableError as error:
        return error.message


def copied(replica: RedisProcess) -> None:
    """Wait until a replica has what was spent; each look takes its time."""
    while replica.command("exists", "statebox:spent:a") != "1":
        pass


FORGOTTEN = "the token is older than what the guard's Redis remembers, so it may have been spent"


async def test_replicas_share_what_is_spent(guard: Make) -> None:
    here, there = guard(), guard()
    assert await here.consume("a", END)
    assert not await there.consume("a", END)
    assert not await here.consume("a", END)


async def test_an_id_is_kept_for_its_tokens_life_and_a_minute(
    redis: RedisProcess, guard: Make
) -> None:
    await guard().consume("a", END)
    assert 655 < int(redis.command("ttl", "statebox:spent:a")) <= 661


async def test_an_answer_is_kept_as_long_as_the_id(redis: RedisProcess, guard: Make) -> None:
    a_guard = guard()
    await a_guard.put("a", b"answer", END)
    await a_guard.put("a", b"another answer", END)
    assert await a_guard.get("a") == b"answer"
    assert 655 < int(redis.command("ttl", "statebox:answer:a")) <= 660
    await a_guard.put("b", b"answer", NOW - 60)
    assert await a_guard.get("b") is None


async def test_a_redis_that_is_down_keeps_and_gives_no_answer(
    redis: RedisProcess, guard: Make
) -> None:
    redis.kill()
    a_guard = guard()
    with pytest.raises(GuardUnavailableError):
        await a_guard.put("a", b"answer", END)
    with pytest.raises(GuardUnavailableError):
        await a_guard.get("a")


async def test_a_token_that_ended_long_ago_is_never_accepted(guard: Make) -> None:
    assert not await guard().consume("a", NOW - 60)
    assert await guard().consume("b", NOW - 59)


async def test_two_prefixes_are_two_stores(redis: RedisProcess, guard: Make) -> None:
    other = RedisGuard(redis.url, prefix="other:", timeout=60, clock=Clock())
    assert await guard().consume("a", END)
    assert await other.consume("a", END)
    await other.aclose()
    assert set(redis.command("keys", "*").split()) == {
        *("statebox:spent:a", "statebox:memory", "other:spent:a", "other:memory")
    }


async def test_a_redis_that_is_new_serves_at_once_but_not_what_is_older(guard: Make) -> None:
    assert await answer(guard(), "a", NOW) is True
    assert await answer(guard(), "b", OLD) == FORGOTTEN
    assert await answer(guard(), "c") is True


async def test_a_guard_that_is_older_than_its_redis_trusts_it_with_nothing_older(
    guard: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had asked nothing yet when the Redis was restarted: others may have spent the token."""
    now = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(redis_module, "time", SimpleNamespace(monotonic=lambda: now - 60))
        a_guard = guard()
    assert await answer(a_guard, "a", NOW) == FORGOTTEN
    assert await answer(a_guard, "b", YOUNG) is True


async def test_without_a_redis_tokens_are_refused_until_it_is_there(
    redis: RedisProcess, guard: Make
) -> None:
    redis.kill()
    a_guard = guard()
    assert await answer(a_guard, "a") == "the guard's Redis gave no answer: ConnectionError"
    redis.start(*FORGETFUL)
    assert await answer(a_guard, "a", NOW) is True


async def test_what_was_sealed_in_the_second_of_its_start_a_redis_does_not_vouch_for(
    redis: RedisProcess,
) -> None:
    """It may have been spent in another Redis by then, which had the same address."""
    redis.kill()
    started = int(time.time())
    redis.start(*FORGETFUL)
    now = int(time.time())
    a_guard = RedisGuard(redis.url, prefix="second:")
    with pytest.raises(GuardUnavailableError):
        await a_guard.consume("a", now + 600, started)
    assert await a_guard.consume("b", now + 600, now) is True
    await a_guard.aclose()


async def test_a_redis_that_was_killed_with_its_memory_makes_no_second_winner(
    redis: RedisProcess, guard: Make
) -> None:
    here, there = guard(), guard()
    assert await answer(here, "a", NOW) is True
    assert await answer(there, "a", NOW) is False
    redis.restart(*FORGETFUL)
    assert redis.command("dbsize") == "0"
    # Whoever asks, and whether or not it is known when the token was sealed.
    for a_guard in (here, there, guard()):
        assert await answer(a_guard, "a", NOW) == FORGOTTEN
        assert await answer(a_guard, "never spent", NOW) == FORGOTTEN
    assert await answer(here, "a") == FORGOTTEN
    # No restart: what was sealed after the loss is served.
    assert await answer(there, "b", YOUNG) is True
    assert await answer(here, "b", YOUNG) is False


async def test_without_a_date_a_token_is_taken_for_as_old_as_the_longest_lived_one(
    redis: RedisProcess, guard: Make
) -> None:
    a_guard = guard()
    assert await a_guard.consume("a", END)
    redis.restart(*FORGETFUL)
    for _ in range(2):
        with pytest.raises(GuardUnavailableError):
            await a_guard.consume("a", END)
    with pytest.raises(GuardUnavailableError):
        await a_guard.consume("b", END - 1)
    # It lives longer than all that were seen, so it is the youngest. The clock's leeway is over
    # when the Redis says so.
    redis.command("hset", "statebox:memory", "since", 0)
    assert await a_guard.consume("c", END + 60)


async def test_a_token_from_within_the_leeway_after_a_loss_is_refused(
    redis: RedisProcess, guard: Make
) -> None:
    a_guard = guard()
    assert await answer(a_guard, "a", NOW) is True
    redis.restart(*FORGETFUL)
    assert await answer(a_guard, "b", NOW + 1) == FORGOTTEN  # a clock that is a second ahead
    assert await answer(a_guard, "c", NOW + 2) is True


async def test_a_durable_redis_that_was_killed_goes_on_as_if_nothing_had_been(
    redis: RedisProcess, guard: Make
) -> None:
    redis.restart(*DURABLE)
    here, there = guard(durable=True), guard(durable=True)
    assert await answer(here, "a", NOW) is True
    redis.restart(*DURABLE)
    assert await answer(here, "a", NOW) is False
    assert await answer(there, "a", NOW) is False
    assert await answer(here, "b", NOW) is True
    # It said so, and was emptied all the same.
    redis.restart(*FORGETFUL, "--appendonly", "no", "--dbfilename", "other.rdb")
    assert await answer(here, "a", NOW) == FORGOTTEN


async def test_a_redis_that_keeps_its_file_is_not_trusted_with_its_last_writes(
    redis: RedisProcess, guard: Make
) -> None:
    redis.restart("--appendonly", "yes", "--appendfsync", "everysec")
    a_guard = guard()
    assert await answer(a_guard, "a", NOW) is True
    redis.restart("--appendonly", "yes", "--appendfsync", "everysec")
    assert await answer(a_guard, "a", NOW) is False
    assert await answer(a_guard, "b", NOW) == FORGOTTEN
    assert await answer(guard(), "b", NOW) == FORGOTTEN
    assert await answer(a_guard, "c", YOUNG) is True


@pytest.mark.parametrize("durable", [False, True])
async def test_a_replica_that_took_over_is_not_trusted_with_what_it_may_have_missed(
    redis: RedisProcess, replica: RedisProcess, guard: Make, durable: bool
) -> None:
    assert await answer(guard(durable=durable), "a", NOW) is True
    copied(replica)
    redis.kill()
    replica.command("replicaof", "no", "one")
    a_guard = guard(durable=durable, url=replica.url)
    assert await answer(a_guard, "a", NOW) is False
    assert await answer(a_guard, "b", NOW) == FORGOTTEN
    assert await answer(a_guard, "c", YOUNG) is True


async def test_a_replica_that_took_over_without_a_copy_vouches_for_nothing_older(
    replica: RedisProcess, guard: Make
) -> None:
    while "master_link_status:up" not in replica.command("info", "replication"):
        pass
    replica.command("replicaof", "no", "one")
    a_guard = guard(url=replica.url)
    assert await answer(a_guard, "a", NOW) == FORGOTTEN
    assert await answer(a_guard, "b", YOUNG) is True


async def test_a_replica_spends_nothing(replica: RedisProcess, guard: Make) -> None:
    assert await answer(guard(), "a", NOW) is True
    copied(replica)
    said = await answer(guard(url=replica.url), "b", NOW)
    assert said == "the guard's Redis gave no answer: ReadOnlyError"


async def test_a_redis_that_was_emptied_makes_no_second_winner(
    redis: RedisProcess, guard: Make
) -> None:
    here, there = guard(), guard()
    assert await answer(here, "a", NOW) is True
    redis.command("flushall")
    assert await answer(here, "a", NOW) == FORGOTTEN
    assert await answer(there, "a", NOW) == FORGOTTEN
    assert await answer(there, "b", YOUNG) is True


async def test_a_redis_that_drops_ids_to_make_room_makes_no_second_winner(
    redis: RedisProcess, guard: Make
) -> None:
    a_guard = guard()
    assert await answer(a_guard, "a", NOW) is True
    redis.command("config", "set", "maxmemory-policy", "volatile-ttl")
    redis.command("config", "set", "maxmemory", "2mb")
    ballast = 0
    while redis.command("exists", "statebox:spent:a") == "1":
        redis.command("set", f"cache:{ballast}", "x" * 100_000, "ex", 3600)
        ballast += 1
    assert await answer(a_guard, "a", NOW) == FORGOTTEN
    assert await answer(guard(), "a", NOW) == FORGOTTEN


async def test_a_full_redis_refuses_and_forgets_nothing(redis: RedisProcess, guard: Make) -> None:
    a_guard = guard()
    assert await answer(a_guard, "a", NOW) is True
    redis.command("config", "set", "maxmemory-policy", "noeviction")
    redis.command("config", "set", "maxmemory", 1)
    assert await answer(a_guard, "b", NOW) == "the guard's Redis gave no answer: OutOfMemoryError"
    assert await answer(a_guard, "a", NOW) is False
    redis.command("config", "set", "maxmemory", 0)
    assert await answer(a_guard, "b", NOW) is True


async def test_a_paused_redis_is_not_waited_for_and_spends_once_what_it_was_sent(
    redis: RedisProcess, guard: Make
) -> None:
    hasty, patient = guard(0.2), guard()
    assert await answer(hasty, "a", NOW) is True
    redis.pause()
    assert await answer(hasty, "b", NOW) == "the guard gave no answer within 0.2 s"
    redis.resume()
    # Spent when the Redis went on, or never there; nobody was served for it, and one may still be.
    assert [await answer(patient, "b", NOW), await answer(hasty, "b", NOW)][1] is False
    assert await answer(patient, "c", NOW) is True


async def test_an_answer_is_never_taken_for_that_of_another_question(
    redis: RedisProcess, guard: Make
) -> None:
    a_guard = guard()
    assert await answer(a_guard, "a", NOW) is True
    redis.pause()
    gone = [asyncio.create_task(answer(a_guard, f"{i}", NOW)) for i in range(40)]
    for _ in range(10):
        await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    redis.resume()
    for _ in range(40):
        assert await answer(a_guard, "a", NOW) is False


@asynccontextmanager
async def answers_get_lost(redis: RedisProcess) -> AsyncGenerator[str]:
    """Give the address of a proxy that closes a connection in place of its first answer to EVAL."""
    lost = 0

    async def serve(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        nonlocal lost
        server, to_server = await asyncio.open_connection("127.0.0.1", redis.port)
        try:
            while asked := await client.read(65536):
                to_server.write(asked)
                answered = await server.read(65536)  # so it was carried out
                if b"EVAL" in asked and not lost:
                    lost += 1
                    break
                to_client.write(answered)
        finally:
            to_server.close()
            to_client.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        yield f"redis://127.0.0.1:{port}/0"
    assert lost == 1


async def test_a_winner_whose_answer_got_lost_is_asked_again_and_still_the_winner(
    redis: RedisProcess, guard: Make
) -> None:
    async with answers_get_lost(redis) as url:
        a_guard = guard(url=url)
        assert await answer(a_guard, "a", NOW) is True
        assert await answer(a_guard, "a", NOW) is False
        await a_guard.aclose()
    assert await answer(guard(), "a", NOW) is False


async def test_connections_from_before_a_restart_fail_nobody(
    redis: RedisProcess, guard: Make
) -> None:
    a_guard = guard()
    await asyncio.gather(*(answer(a_guard, f"{i}", NOW) for i in range(16)))
    redis.restart(*FORGETFUL)
    answers = await asyncio.gather(*(answer(a_guard, f"{i}", YOUNG) for i in range(16, 32)))
    assert answers == [True] * 16


async def test_more_presenters_than_connections_all_get_an_answer(
    redis: RedisProcess, guard: Make
) -> None:
    a_guard = guard()
    answers = await asyncio.gather(*(answer(a_guard, "a", NOW) for _ in range(200)))
    assert sorted(answers, key=str) == [False] * 199 + [True]
    assert len(redis.command("client", "list").splitlines()) <= 17


def test_a_guard_may_outlive_the_event_loop(redis: RedisProcess) -> None:
    a_guard = RedisGuard(redis.url, clock=Clock(), timeout=60)

    async def present() -> bool:
        try:
            return await a_guard.consume("a", END)
        finally:
            await a_guard.aclose()

    assert [asyncio.run(present()) for _ in range(2)] == [True, False]


async def test_a_wrong_password_is_a_failure_that_does_not_repeat_it(redis: RedisProcess) -> None:
    redis.command("config", "set", "requirepass", "open sesame")
    a_guard = RedisGuard(redis.url.replace("//", "//:swordfish@"), timeout=60, clock=Clock())
    with pytest.raises(GuardUnavailableError) as caught:
        await a_guard.consume("a", END)
    assert caught.value.message == "the guard's Redis gave no answer: AuthenticationError"
    assert "swordfish" not in f"{caught.value!r} {caught.value.__cause__!r} {a_guard!r}"
    await a_guard.aclose()


def test_a_url_of_another_kind_is_found_at_the_start() -> None:
    with pytest.raises(ValueError, match="redis://"):
        RedisGuard("http://127.0.0.1")


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ImportError, match=r'pip install "statebox\[redis\]"'):
        RedisGuard("redis://127.0.0.1")
