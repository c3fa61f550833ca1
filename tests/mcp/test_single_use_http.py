"""A real client over HTTP presents the confirming request again: the money goes out once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from statebox import Keyring
from statebox.replay import SQLiteGuard
from tests.mcp.client import asked, call, refused, text_of
from tests.mcp.served import (
    Make,
    Refunds,
    boundary,
    codec,
    fastmcp,
    low_level_boundary,
    low_level_codec,
    serving,
)


def kinds(*makes: Make) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("make", makes, ids=lambda make: make.__name__)


every_kind = kinds(boundary, low_level_boundary, codec, low_level_codec, fastmcp)
kinds_that_remember = kinds(boundary, low_level_boundary, codec, low_level_codec)


@pytest.fixture
def ring() -> Keyring:
    return Keyring.generate()


@pytest.fixture
async def guard(tmp_path: Path) -> AsyncIterator[Callable[[], SQLiteGuard]]:
    """Makes guards of one file, as the replicas of a machine have one each."""
    guards: list[SQLiteGuard] = []

    def make() -> SQLiteGuard:
        guards.append(SQLiteGuard(tmp_path / "spent.db", timeout=60))
        return guards[-1]

    yield make
    for each in guards:
        await each.aclose()


@pytest.fixture
def refunds() -> Refunds:
    refunds = Refunds()
    refunds.go_on.set()
    return refunds


@every_kind
async def test_the_confirming_request_is_carried_out_once(
    make: Make, ring: Keyring, guard: Callable[[], SQLiteGuard], refunds: Refunds
) -> None:
    async with (
        serving(make(ring, refunds, guard(), None)) as here,
        serving(make(ring, refunds, guard(), None)) as there,
    ):
        named = await asked(there, await asked(here), name="Alice")
        first = await call(here, named, yes="yes")
        assert text_of(first) == "refunded ORD-7001 to Alice, run 1"
        for url in (here, there):
            assert refused(await call(url, named, yes="yes"))
    assert refunds.runs == ["ORD-7001"]


@kinds(boundary, codec, fastmcp)
async def test_of_requests_that_confirm_at_once_one_is_carried_out(
    make: Make, ring: Keyring, guard: Callable[[], SQLiteGuard], refunds: Refunds
) -> None:
    async with (
        serving(make(ring, refunds, guard(), None)) as here,
        serving(make(ring, refunds, guard(), None)) as there,
    ):
        named = await asked(there, await asked(here), name="Alice")
        told = await asyncio.gather(
            *(call(url, named, yes="yes") for url in (here, there) for _ in range(4))
        )
    assert sum(refused(each) for each in told) == 7
    assert refunds.runs == ["ORD-7001"]


@kinds_that_remember
async def test_with_remember_the_second_answer_equals_the_first(
    make: Make, ring: Keyring, guard: Callable[[], SQLiteGuard], refunds: Refunds
) -> None:
    one, two = guard(), guard()
    async with (
        serving(make(ring, refunds, one, one)) as here,
        serving(make(ring, refunds, two, two)) as there,
    ):
        named = await asked(there, await asked(here), name="Alice")
        first = await call(here, named, yes="yes")
        assert text_of(first) == "refunded ORD-7001 to Alice, run 1"
        for url in (here, there):
            assert await call(url, named, yes="yes") == first
    assert refunds.runs == ["ORD-7001"]


@kinds(boundary, codec)
async def test_with_remember_a_client_that_lost_its_connection_gets_the_answer_later(
    make: Make, ring: Keyring, guard: Callable[[], SQLiteGuard]
) -> None:
    refunds = Refunds()
    store = guard()
    async with serving(make(ring, refunds, store, store)) as url:
        named = await asked(url, await asked(url), name="Alice")
        lost = asyncio.create_task(call(url, named, yes="yes"))
        await refunds.begun.wait()
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        again = asyncio.create_task(call(url, named, yes="yes"))
        refunds.go_on.set()
        assert text_of(await again) == "refunded ORD-7001 to Alice, run 1"
    assert refunds.runs == ["ORD-7001"]


@kinds(boundary, codec)
async def test_with_remember_the_next_question_comes_again(
    make: Make, ring: Keyring, guard: Callable[[], SQLiteGuard], refunds: Refunds
) -> None:
    store = guard()
    async with serving(make(ring, refunds, store, store)) as url:
        first = await asked(url)
        told = [await asked(url, first, name="Alice") for _ in range(2)]
        assert text_of(await call(url, told[1], yes="yes")) == "refunded ORD-7001 to Alice, run 1"


@contextmanager
def moved(folder: Path) -> Generator[None]:
    """Move a folder away for the length of the block."""
    away = folder.rename(folder.with_name(f"{folder.name}-away"))
    yield
    away.rename(folder)


@kinds(boundary, codec, fastmcp)
async def test_without_its_guard_nothing_is_carried_out(
    make: Make,
    ring: Keyring,
    guard: Callable[[], SQLiteGuard],
    refunds: Refunds,
    tmp_path: Path,
) -> None:
    async with serving(make(ring, refunds, guard(), None)) as url:
        first = await asked(url)
        with moved(tmp_path):
            assert refused(await call(url, first, name="Alice"))
        named = await asked(url, first, name="Alice")
        assert text_of(await call(url, named, yes="yes")).endswith("run 1")


async def test_a_client_may_go_on_while_another_one_waits(
    ring: Keyring, guard: Callable[[], SQLiteGuard]
) -> None:
    refunds = Refunds()
    store = guard()
    async with serving(boundary(ring, refunds, store, store)) as url:
        named = await asked(url, await asked(url), name="Alice")
        both = [asyncio.create_task(call(url, named, yes="yes")) for _ in range(2)]
        await refunds.begun.wait()
        assert isinstance(await asked(url), str)
        refunds.go_on.set()
        first, second = await asyncio.gather(*both)
    assert first == second
    assert refunds.runs == ["ORD-7001"]
