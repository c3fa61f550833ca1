"""Fresh processes, and several workers at once."""

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.cases import MODES
from benchmarks.processes import LIBRARY, PRIMITIVES, cpu_seconds, inspecting, python
from benchmarks.workers import process_pool, round_trips, thread_pool

COMMANDS = {
    "nothing": python("pass"),
    "import AESGCM and cbor2": python(PRIMITIVES),
    "import statebox": python(LIBRARY),
    "statebox inspect": inspecting(),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_fresh_process(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark.group = "fresh processes"
    assert benchmark(cpu_seconds, COMMANDS[name]) > 0


@pytest.mark.parametrize("alg", MODES)
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("pool_of", [thread_pool, process_pool])
def test_workers(
    benchmark: BenchmarkFixture,
    pool_of: Callable[[str, int], AbstractContextManager[Executor]],
    workers: int,
    alg: str,
) -> None:
    benchmark.group = f"1,000 round trips in each worker of a {pool_of.__name__}, {alg}"
    with pool_of(alg, workers) as pool:
        assert benchmark(round_trips, pool, alg, workers, 1000) > 0
