"""Rings, clocks, and the two replicas that the tests over HTTP share."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from statebox import Keyring, Statebox
from tests.mcp.replicas import Replica, started
from tests.mcp.rounds import Clock

ALGORITHMS = ("A256GCM", "HS256")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ALGORITHMS)
def ring(request: pytest.FixtureRequest, clock: Clock) -> Keyring:
    return Keyring.generate(request.param, now=clock.now)


@pytest.fixture
def box(ring: Keyring, clock: Clock) -> Statebox:
    return Statebox(ring, audience="billing", clock=clock)


@pytest.fixture(scope="session")
def ring_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for alg in ALGORITHMS:
        path = tmp_path_factory.mktemp("rings") / f"{alg}.json"
        path.touch(mode=0o600)
        path.write_text(Keyring.generate(alg).to_json())
        files[alg] = path
    return files


@pytest.fixture(scope="session")
def replicas(
    ring_files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Replica, Replica]]:
    logs = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(started(ring_files, logs / f"{name}.log")) for name in "ab"
        )
        yield first.ready(), second.ready()
