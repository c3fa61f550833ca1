"""Other libraries with the same information in their tokens; all seal, open and check it."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.boundary import sdk_pair, statebox_pair
from benchmarks.cases import BOUND, MODES, STATES, box_of, sealing
from benchmarks.peers import PEERS, peer_of, peers_of, sdk_codec

states = pytest.mark.parametrize("name", BOUND)


@states
@pytest.mark.parametrize("peer", PEERS)
def test_peer(benchmark: BenchmarkFixture, name: str, peer: str) -> None:
    benchmark.group = f"seal + open with ready bindings, {name}"
    assert benchmark(peers_of(STATES[name])[peer].both) == STATES[name]


@states
@pytest.mark.parametrize("alg", MODES)
def test_statebox(benchmark: BenchmarkFixture, name: str, alg: str) -> None:
    benchmark.group = f"seal + open with ready bindings, {name}"
    assert benchmark(sealing(box_of(alg), STATES[name], bound=True).both)


@states
def test_sdk_codec(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark.group = f"seal + open with ready bindings, {name}"
    assert benchmark(peer_of(sdk_codec, STATES[name]).both) == STATES[name]


@states
def test_sdk_from_params(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark.group = f"seal + open from a request's params, {name}"
    assert benchmark(sdk_pair(STATES[name]).both) == STATES[name]


@states
@pytest.mark.parametrize("alg", MODES)
def test_statebox_from_params(benchmark: BenchmarkFixture, name: str, alg: str) -> None:
    benchmark.group = f"seal + open from a request's params, {name}"
    assert benchmark(statebox_pair(alg, STATES[name]).both) == STATES[name]
