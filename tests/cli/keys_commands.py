"""Running `statebox keys` in this process, at a time that the test sets."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from statebox import Key, Keyring
from statebox_cli import options
from tests.cli.terminal import ROOT, Ran, run
from tests.samples import NOW, Clock

Keys = Callable[..., Ran]

COMMAND = [sys.executable, "-m", "statebox", "keys"]


def environment(**more: str) -> dict[str, str]:
    """Give what a process of its own needs to find this code."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "cli")]), **more}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time that every command takes for now."""
    clock = Clock()

    def moment(at: float | None) -> float:
        return clock() if at is None else at

    monkeypatch.setattr(options, "moment", moment)
    return clock


@pytest.fixture
def keys(clock: Clock) -> Keys:
    """Run `statebox keys` with arguments."""
    assert clock.now == NOW  # the fixture has set the time

    def keys(*arguments: object, stdin: str | bytes = "") -> Ran:
        return run("keys", *map(str, arguments), stdin=stdin)

    return keys


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the ring of the test lies; it is what --keyring is by default."""
    monkeypatch.setenv("STATEBOX_KEYRING", str(tmp_path / "ring.json"))
    return tmp_path / "ring.json"


def put(path: Path, *keys: Key, max_ttl: int = 3600) -> Keyring:
    """Write a ring into a file."""
    ring = Keyring(keys, max_ttl=max_ttl)
    path.touch(0o600)
    path.write_text(ring.to_json())
    return ring


def kids(path: Path) -> list[str]:
    """Read the kids of a ring, in the order of their nbf."""
    return [key.kid for key in Keyring.load(path)]
