"""Spending a token, beside the bare write to the same kind of store."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.guards import STORES, memory_calls, redis_calls, sqlite_calls
from benchmarks.measuring import Call

CALLS: dict[str, Callable[[], AbstractContextManager[dict[str, Call]]]] = {
    "memory": memory_calls,
    "sqlite": sqlite_calls,
    "redis": redis_calls,
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Generator[tuple[str, dict[str, Call]]]:
    with CALLS[request.param]() as calls:
        yield request.param, calls


@pytest.mark.parametrize("what", ["bare", "consume"])
def test_guard(benchmark: BenchmarkFixture, store: tuple[str, dict[str, Call]], what: str) -> None:
    name, calls = store
    benchmark.group = f"spending a token, {name}"
    assert benchmark(calls[what])
