"""Where stdout or stderr fails: what was done is said all the same, and nothing is a traceback."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from statebox import Keyring
from statebox_cli import keys_telling
from statebox_cli.output import lowered
from tests.cli.keys_commands import Keys, environment, put
from tests.cli.keys_commands import clock as clock  # noqa: PLC0414 - fixtures
from tests.cli.keys_commands import keys as keys  # noqa: PLC0414
from tests.cli.keys_commands import path as path  # noqa: PLC0414
from tests.redis_server import redis_port as redis_port  # noqa: PLC0414
from tests.redis_server import redis_url as redis_url  # noqa: PLC0414
from tests.samples import key

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")

NO_SPACE = os.strerror(errno.ENOSPC)

WRITERS: dict[str, tuple[str, ...]] = {
    "init": ("--force", "--yes"),
    "rotate": (),
    "promote": ("next", "--now", "--yes"),
    "revoke": ("next", "--reason", "leaked", "--yes"),
    "retire": ("next", "--yes"),
    "prune": ("--yes",),
    "import": ("theirs.json",),
}


def ring() -> Keyring:
    return Keyring(
        [
            # By the clock that a process of its own has: ended, active, and pending until 2096.
            key("dead", nbf=1, exp=100),
            key("one", nbf=1000),
            key("next", nbf=4_000_000_000),
        ]
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a ring that every command of the table changes."""
    put(tmp_path / "ring.json", *ring())
    (tmp_path / "theirs.json").write_text(json.dumps(key("theirs", nbf=10).to_jwk()))
    return tmp_path


class Failing:
    """The command in a process of its own, in a folder, with streams that fail."""

    def __init__(self, folder: Path, address: str = "ring.json") -> None:
        self._folder = folder
        self._address = address

    def __call__(
        self,
        *arguments: str,
        stdout: int | IO[bytes] = subprocess.PIPE,
        stderr: int | IO[bytes] = subprocess.PIPE,
        unbuffered: str = "",
    ) -> tuple[int, str, str]:
        ran = subprocess.run(
            [sys.executable, "-m", "statebox", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=self._folder,
            check=False,
            env=environment(STATEBOX_KEYRING=self._address, PYTHONUNBUFFERED=unbuffered),
        )
        return ran.returncode, (ran.stdout or b"").decode(), (ran.stderr or b"").decode()


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_ring_that_was_written_is_called_written_though_stdout_is_full(
    name: str, form: str, folder: Path
) -> None:
    options = ["--json"] if form == "json" else []
    with FULL.open("wb") as full:
        code, _, err = Failing(folder)("keys", name, *WRITERS[name], *options, stdout=full)
    assert Keyring.load(folder / "ring.json") != ring()
    assert code == 1
    assert err.splitlines() == [
        f"statebox: file:ring.json was written, and only the report of it failed: {NO_SPACE}",
        "hint: do not run it again: `statebox keys list` shows the ring as it is now",
    ]


def test_a_ring_in_a_redis_that_was_written_is_called_written(redis_url: str, folder: Path) -> None:
    with FULL.open("wb") as full:
        code, _, err = Failing(folder, redis_url)("keys", "init", stdout=full)
    assert code == 1
    assert "was written, and only the report of it failed" in err


def test_a_reader_that_is_gone_does_not_hide_that_the_ring_was_written(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code, _, err = Failing(folder)("keys", "rotate", stdout=writer)
    dry = Failing(folder)("keys", "rotate", "--dry-run", stdout=writer)
    os.close(writer)
    assert len(Keyring.load(folder / "ring.json")) == 4
    assert (code, err.splitlines()[0]) == (141, "statebox: file:ring.json was written")
    assert dry == (141, "", "")


def test_what_was_not_written_is_not_called_written(folder: Path) -> None:
    with FULL.open("wb") as full:
        failing = Failing(folder)
        for arguments in (
            ("keys", "rotate", "--dry-run"),
            ("keys", "list", "--json"),
            # Its stdout is where the ring was to go.
            ("keys", "rotate", "--keyring", "cmd:cat ring.json"),
        ):
            code, _, err = failing(*arguments, stdout=full)
            assert (code, err.splitlines()[0]) == (1, f"statebox: {lowered(NO_SPACE)}")
            assert "written" not in err
    assert Keyring.load(folder / "ring.json") == ring()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("keys", "list"), 1),
        (("keys", "list", "--json"), 1),
        (("inspect", "-h"), 1),
        (("inspect", "sb1.x", "--json"), 1),
        (("keys", "list", "--bogus", "--json"), 2),
        (("keys", "list", "--keyring", "none.json", "--json"), 8),
    ],
)
def test_no_failure_of_stdout_is_a_traceback(
    arguments: tuple[str, ...], code: int, unbuffered: str, folder: Path
) -> None:
    with FULL.open("wb") as full:
        ran = Failing(folder)(*arguments, stdout=full, unbuffered=unbuffered)
    said, hint = ran[2].splitlines()
    assert (ran[0], said[:10], hint[:6]) == (code, "statebox: ", "hint: ")


@pytest.mark.parametrize(
    ("arguments", "code"), [(("rotate", "--activate-in", "0"), 0), (("rotate", "--bogus"), 2)]
)
def test_a_remark_that_cannot_be_made_is_no_failure(
    arguments: tuple[str, ...], code: int, folder: Path
) -> None:
    with FULL.open("wb") as full:
        ran = Failing(folder)("keys", *arguments, stderr=full)
    assert (ran[0], bool(ran[1])) == (code, code == 0)


def raising(error: BaseException) -> Callable[..., str]:
    def drawn(*_: object) -> str:
        raise error

    return drawn


def test_a_picture_that_cannot_be_drawn_does_not_hide_that_the_ring_was_written(
    keys: Keys, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(path, key("one"))
    missing = ModuleNotFoundError("No module named 'rich'", name="rich")
    monkeypatch.setattr(keys_telling, "ring_text", raising(missing))
    ran = keys("rotate")
    assert (ran.code, ran.out) == (1, "")
    assert f"file:{path} was written, and only the report of it failed: rich is not" in ran.err
    assert keys("rotate", "--json").json["written"] is True
    monkeypatch.setattr(keys_telling, "ring_text", raising(KeyboardInterrupt()))
    ran = keys("rotate")
    assert (ran.code, ran.err.splitlines()[0]) == (130, f"statebox: file:{path} was written")
