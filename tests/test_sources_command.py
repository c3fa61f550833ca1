"""statebox.sources.command: what a command prints, fails with, or does not say at all."""

import logging
import os
import shlex
import sys
from pathlib import Path

import pytest

from statebox import Keyring, KeyringError
from statebox.sources import open_source
from statebox.sources.command import CommandReader
from tests.samples import key

ONE = Keyring([key("one")])


def python(code: str, *arguments: str) -> str:
    return shlex.join([sys.executable, "-c", code, *arguments])


def error_of(command: str, timeout: float = 60.0) -> KeyringError:
    with pytest.raises(KeyringError) as caught:
        CommandReader(command, timeout=timeout).read()
    return caught.value


def test_the_ring_is_what_the_command_writes_to_stdout(tmp_path: Path) -> None:
    (tmp_path / "a ring.json").write_text(ONE.to_json())
    source = open_source(f"cmd:cat '{tmp_path}/a ring.json'")
    assert source.current() == ONE


def test_no_shell_is_involved() -> None:
    assert CommandReader("echo $HOME; ls > x | cat").read() == b"$HOME; ls > x | cat\n"


def test_stdin_is_empty() -> None:
    assert CommandReader("cat").read() == b""


def test_a_command_runs_in_the_folder_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = CommandReader("pwd")
    monkeypatch.chdir("/")
    assert reader.read().decode().strip() == str(tmp_path.resolve())


def test_a_command_that_fails_says_how_and_nothing_that_it_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    error = error_of(python("import sys; print('s3cret'); sys.exit('s3cret')", "--token=s3cret"))
    assert error.message == f"cmd:{Path(sys.executable).name} failed: exit status 1"
    error = error_of(python("import os; os.kill(os.getpid(), 9)", "s3cret"))
    assert error.message.endswith("failed: signal 9")
    assert "s3cret" not in f"{caplog.text}{error.message}{error.hint}"


def test_a_command_that_is_not_there_says_so() -> None:
    assert "did not start: No such file" in error_of("/does/not/exist --token=s3cret").message
    assert "did not start: not a command" in error_of("a\0b").message


def test_a_command_that_does_not_end_is_ended() -> None:
    error = error_of("sleep 600", timeout=0.1)
    assert error.message == "cmd:sleep wrote no end within 0.1 s"
    error = error_of("sh -c 'exec >&-; sleep 600'", timeout=1)
    assert error.message == "cmd:sh did not end within 1 s"


def test_what_a_command_started_is_ended_with_it(tmp_path: Path) -> None:
    """Or a child that holds the pipe open would keep the reader waiting for ever."""
    os.mkfifo(tmp_path / "held", 0o600)
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    error = error_of(f"sh -c 'sleep 600 3>{tmp_path}/held & echo $!'", timeout=1)
    assert "wrote no end" in error.message
    os.set_blocking(held, True)
    assert os.read(held, 1) == b""  # comes when the last one who could write has gone
    os.close(held)


def test_a_command_that_writes_without_end_is_ended() -> None:
    assert "wrote more than" in error_of("yes").message


def test_a_ring_that_comes_in_pieces_is_read_whole() -> None:
    code = "import sys\nfor piece in sys.argv[1:]: sys.stdout.write(piece); sys.stdout.flush()"
    assert CommandReader(python(code, "a", "b", "c" * 100_000)).read() == b"ab" + b"c" * 100_000
