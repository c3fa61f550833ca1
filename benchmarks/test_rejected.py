"""Tokens that are refused, one for each reason there is before a payload is read."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.cases import MODES, STATES
from benchmarks.rejected import REASONS, rejected_of


@pytest.mark.parametrize("name", ["text of 64 B", "text of 16 KB"])
@pytest.mark.parametrize("alg", MODES)
@pytest.mark.parametrize("reason", REASONS)
def test_rejected(benchmark: BenchmarkFixture, reason: str, alg: str, name: str) -> None:
    benchmark.group = f"open {alg}, {name}, refused or not"
    refused = rejected_of(alg, STATES[name])[reason]
    assert benchmark(refused.call) == refused.code
