"""Rings of many keys, and rings that are watched."""

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.cases import MAP, MODES, box_of, live_box_of, sealing

modes = pytest.mark.parametrize("alg", MODES)


@modes
@pytest.mark.parametrize("keys", [1, 10, 100, 1000])
@pytest.mark.parametrize("verb", ["seal", "open"])
def test_ring(benchmark: BenchmarkFixture, alg: str, keys: int, verb: str) -> None:
    benchmark.group = f"{verb} {alg}, rings of 1 to 1,000 keys"
    pair = sealing(box_of(alg, keys), MAP, bound=True)
    assert benchmark(pair.seal if verb == "seal" else pair.open)


@modes
@pytest.mark.parametrize("verb", ["seal", "open"])
def test_live_file(benchmark: BenchmarkFixture, tmp_path: Path, alg: str, verb: str) -> None:
    benchmark.group = f"{verb} {alg}, rings of 1 to 1,000 keys"
    pair = sealing(live_box_of(alg, tmp_path), MAP, bound=True)
    assert benchmark(pair.seal if verb == "seal" else pair.open)
