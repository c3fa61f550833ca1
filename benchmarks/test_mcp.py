"""What statebox adds to an MCP server: one call through its middleware, and a round trip over HTTP."""

from collections.abc import Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.boundary import sdk_call, statebox_call
from benchmarks.cases import MODES
from benchmarks.measuring import Call
from benchmarks.roundtrip import BOUNDARIES, STATE, round_trips


def test_sdk_boundary(benchmark: BenchmarkFixture) -> None:
    benchmark.group = "a call through the boundary"
    assert benchmark(sdk_call())


@pytest.mark.parametrize("alg", MODES)
def test_statebox_boundary(benchmark: BenchmarkFixture, alg: str) -> None:
    benchmark.group = "a call through the boundary"
    assert benchmark(statebox_call(alg))


@pytest.fixture(scope="module")
def trips() -> Iterator[dict[str, Call]]:
    with round_trips() as calls:
        yield calls


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_round_trip(benchmark: BenchmarkFixture, trips: dict[str, Call], boundary: str) -> None:
    benchmark.group = "an MCP round trip over HTTP"
    assert benchmark(trips[boundary]) == STATE
