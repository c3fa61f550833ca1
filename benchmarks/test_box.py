"""Sealing and opening: both modes, every size of state, with and without bindings, over the floor."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.cases import MODES, STATES, box_of, sealing
from benchmarks.floor import floor_of, raw_pair

modes = pytest.mark.parametrize("alg", MODES)
states = pytest.mark.parametrize("name", STATES)


@states
@modes
@pytest.mark.parametrize("kind", ["floor", "unbound", "bound"])
def test_seal(benchmark: BenchmarkFixture, name: str, alg: str, kind: str) -> None:
    benchmark.group = f"seal {alg}, {name}"
    state = STATES[name]
    pair = (
        floor_of(alg, state)
        if kind == "floor"
        else sealing(box_of(alg), state, bound=kind == "bound")
    )
    assert benchmark(pair.seal)


@states
@modes
@pytest.mark.parametrize("kind", ["floor", "unbound", "bound"])
def test_open(benchmark: BenchmarkFixture, name: str, alg: str, kind: str) -> None:
    benchmark.group = f"open {alg}, {name}"
    state = STATES[name]
    pair = (
        floor_of(alg, state)
        if kind == "floor"
        else sealing(box_of(alg), state, bound=kind == "bound")
    )
    assert benchmark(pair.open)


@pytest.mark.parametrize("kilobytes", [1, 16, 64])
@pytest.mark.parametrize("verb", ["seal", "open"])
def test_bare_primitives(benchmark: BenchmarkFixture, kilobytes: int, verb: str) -> None:
    benchmark.group = f"AES-GCM and base64 alone, {verb}"
    pair = raw_pair(kilobytes << 10)
    assert benchmark(pair.seal if verb == "seal" else pair.open)
