"""statebox.files: who may read a secret, and that a file is replaced whole, by one writer at a time."""

import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from statebox.errors import KeyringError
from statebox.files import MAX_BYTES, locked, read_private
from tests.accounts import NOBODY, as_root, folder_of_nobody, nobody
from tests.accounts import open_folder as open_folder  # noqa: PLC0414 - a fixture


def private(path: Path, data: bytes = b"secret", mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def replace(path: Path, data: bytes) -> None:
    with locked(path) as file:
        file.replace(data)


def test_a_file_that_only_its_owner_can_read_is_read_whole(tmp_path: Path) -> None:
    assert read_private(private(tmp_path / "ring", b"x" * 100_000)) == b"x" * 100_000
    assert read_private(private(tmp_path / "ring", b"", 0o400)) == b""


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o610, 0o601])
def test_a_file_that_others_can_read_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, mode: int
) -> None:
    path = private(tmp_path / "ring", mode=mode)
    with pytest.raises(KeyringError, match=rf"can be read by others \(mode {mode:04o}\)") as caught:
        read_private(path)
    assert caught.value.hint == f"chmod 600 {path}"


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666, 0o777])
def test_a_file_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(KeyringError, match="can be written by others"):
        read_private(private(tmp_path / "ring", mode=mode))


def test_a_missing_file_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(KeyringError, match="cannot be read: No such file") as caught:
        read_private(tmp_path / "ring")
    assert caught.value.hint == (
        "Put its copy back if there was one; give another path; or, for the first, "
        f"`statebox keys init --keyring {tmp_path / 'ring'}`."
    )


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(KeyringError, match="is not a regular file"):
            read_private(path)


def test_a_link_is_followed_and_what_it_leads_to_is_judged(tmp_path: Path) -> None:
    target = private(tmp_path / "target")
    (tmp_path / "link").symlink_to(target)
    assert read_private(tmp_path / "link") == b"secret"
    target.chmod(0o644)
    with pytest.raises(KeyringError, match="can be read by others"):
        read_private(tmp_path / "link")


def test_a_file_longer_than_any_keyring_is_refused(tmp_path: Path) -> None:
    path = private(tmp_path / "ring", bytes(MAX_BYTES))
    assert len(read_private(path)) == MAX_BYTES
    with path.open("ab") as file:
        file.write(b"x")
    with pytest.raises(KeyringError, match="is longer than"):
        read_private(path)


def test_a_path_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyringError, match="not a path"):
        read_private("a\0b")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(KeyringError, match="cannot be read: Too many levels") as caught:
        read_private(tmp_path / "loop")
    assert caught.value.hint == "Give the path of a regular file."


def test_a_disk_that_fails_while_reading_is_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(_descriptor: int) -> object:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(os, "fstatvfs", stale)
    with pytest.raises(KeyringError, match="Stale file handle"):
        read_private(private(tmp_path / "ring"))


@as_root
def test_the_file_of_another_user_is_refused_unless_root_acts_for_them(open_folder: Path) -> None:
    theirs = private(open_folder / "ring")
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(KeyringError, match=f"belongs to another user .uid {NOBODY}"):
        read_private(theirs)
    assert read_private(theirs, any_owner=True) == b"secret"
    theirs.chmod(0o644)
    with pytest.raises(KeyringError, match="can be read by others"):
        read_private(theirs, any_owner=True)


@as_root
def test_any_owner_is_for_root_alone(open_folder: Path) -> None:
    theirs = private(open_folder / "ring", mode=0o640)
    os.chown(theirs, 1, NOBODY)
    with nobody(), pytest.raises(KeyringError, match="belongs to another user"):
        read_private(theirs, any_owner=True)


@as_root
def test_a_file_of_roots_that_is_readable_through_its_group_is_accepted(open_folder: Path) -> None:
    path = private(open_folder / "ring", mode=0o640)
    os.chown(path, 0, NOBODY)
    with nobody():
        assert read_private(path) == b"secret"
    for mode in (0o660, 0o644):
        path.chmod(mode)
        with nobody(), pytest.raises(KeyringError, match="by others"):
            read_private(path)


@as_root
def test_a_file_that_may_not_be_read_says_who_could(open_folder: Path) -> None:
    path = private(open_folder / "ring")
    with nobody(), pytest.raises(KeyringError, match="Permission denied") as caught:
        read_private(path)
    assert "chown $(id -u)" in caught.value.hint


@as_root
def test_a_file_of_roots_on_a_read_only_mount_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes mounts secrets so; a test may not mount, so the flag alone is played."""
    path = private(tmp_path / "ring", mode=0o644)

    def read_only(_descriptor: int) -> SimpleNamespace:
        return SimpleNamespace(f_flag=os.ST_RDONLY)

    monkeypatch.setattr(os, "fstatvfs", read_only)
    assert read_private(path) == b"secret"
    path.chmod(0o664)
    with pytest.raises(KeyringError, match="can be written by others"):
        read_private(path)


def test_a_file_is_made_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        replace(tmp_path / "ring", b"new")
    finally:
        os.umask(before)
    assert read_private(tmp_path / "ring") == b"new"
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ring.lock", "ring"]


def test_the_old_file_stays_whole_when_the_disk_refuses(tmp_path: Path) -> None:
    path = private(tmp_path / "ring", b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with locked(path) as file:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
            with pytest.raises(KeyringError, match="was not written: File too large") as caught:
                file.replace(b"x" * 2000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.hint.startswith("Look at the disk")
    assert path.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ring.lock", "ring"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    target = private(tmp_path / "..data" / "ring", b"old")
    (tmp_path / "data").symlink_to("..data")
    (tmp_path / "ring").symlink_to("data/../data/ring")
    replace(tmp_path / "ring", b"new")
    assert (tmp_path / "ring").is_symlink()
    assert target.read_bytes() == b"new"


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ring").symlink_to("ring")
    with pytest.raises(KeyringError, match="Too many levels"):
        replace(tmp_path / "ring", b"new")


def test_a_file_exists_or_not(tmp_path: Path) -> None:
    with locked(tmp_path / "ring") as file:
        assert not file.exists()
        file.replace(b"new")
        assert file.exists()


@as_root
def test_a_link_into_the_folder_of_another_owner_is_not_followed(open_folder: Path) -> None:
    target = private(folder_of_nobody(open_folder) / "ring", b"theirs")
    (open_folder / "ring").symlink_to(target)
    with pytest.raises(KeyringError, match="a link into a folder of another owner") as caught:
        replace(open_folder / "ring", b"new")
    assert str(target) in caught.value.hint
    assert target.read_bytes() == b"theirs"


@as_root
def test_the_link_of_another_user_into_ones_own_folder_is_not_followed(open_folder: Path) -> None:
    target = private(open_folder / "ring", b"roots")
    trap = folder_of_nobody(open_folder) / "ring"
    trap.symlink_to(target)
    os.lchown(trap, NOBODY, NOBODY)
    (open_folder / "link").symlink_to(trap)  # root's own link, by way of theirs
    for path in (trap, open_folder / "link"):
        with pytest.raises(KeyringError, match="a link into a folder of another owner"):
            replace(path, b"new")
    assert target.read_bytes() == b"roots"


@as_root
def test_a_link_of_roots_into_ones_own_folder_is_followed(open_folder: Path) -> None:
    folder = folder_of_nobody(open_folder)
    (open_folder / "run").symlink_to(folder)
    with nobody():
        replace(open_folder / "run" / "ring", b"new")
    assert (folder / "ring").read_bytes() == b"new"


@as_root
def test_what_root_writes_for_a_user_stays_theirs(open_folder: Path) -> None:
    path = private(folder_of_nobody(open_folder) / "ring", b"old")
    os.chown(path, NOBODY, NOBODY)
    replace(path, b"by root")
    with nobody():
        assert read_private(path) == b"by root"
        replace(path, b"by its owner")  # the lock file is theirs as well
    assert read_private(path, any_owner=True) == b"by its owner"


@as_root
def test_a_folder_that_may_not_be_written_is_refused(open_folder: Path) -> None:
    with nobody(), pytest.raises(KeyringError, match="Permission denied") as caught:
        replace(open_folder / "ring", b"new")
    assert caught.value.hint == f"Run as the owner of {open_folder}."


def test_a_missing_folder_is_refused_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(KeyringError, match="was not written: No such file") as caught:
        replace(tmp_path / "missing" / "ring", b"new")
    assert caught.value.hint == f"mkdir -p -m 700 {tmp_path / 'missing'}"
    with pytest.raises(KeyringError, match="not a path"):
        replace(Path("a\0b"), b"new")


def test_a_second_writer_is_told_to_try_again(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "ring"),
        pytest.raises(KeyringError, match="another command is writing") as caught,
        locked(tmp_path / "ring", timeout=0),
    ):
        raise AssertionError
    assert caught.value.hint == "Try again when it has ended."


def test_a_second_writer_waits_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ExitStack()
    first.enter_context(locked(tmp_path / "ring"))

    def first_one_ends(_seconds: float) -> None:
        first.close()

    monkeypatch.setattr(time, "sleep", first_one_ends)
    replace(tmp_path / "ring", b"second")
    assert read_private(tmp_path / "ring") == b"second"


def test_two_links_to_one_file_share_its_lock(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link").symlink_to("../ring")
    with (
        locked(tmp_path / "ring"),
        pytest.raises(KeyringError, match="another command is writing"),
        locked(tmp_path / "a" / "link", timeout=0),
    ):
        raise AssertionError


def test_a_writer_that_was_killed_leaves_nothing_that_stops_the_next(tmp_path: Path) -> None:
    script = (
        "import sys, time; from statebox.files import locked\n"
        "with locked(sys.argv[1]): print('locked', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "ring")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"locked\n"
        with pytest.raises(KeyringError), locked(tmp_path / "ring", timeout=0):
            raise AssertionError
        writer.kill()
    assert writer.returncode == -signal.SIGKILL
    with locked(tmp_path / "ring", timeout=0) as file:
        file.replace(b"next")


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    leftover = private(tmp_path / ".ring.0123456789abcdef.tmp")
    others = [
        private(tmp_path / name)
        for name in (
            ".ring.tmp",
            ".other.0123456789abcdef.tmp",
            "ring.0123456789abcdef.tmp",
            "my.ring.0123456789abcdef.tmp",
            ".ring.0123456789abcdef.tmp.old",
        )
    ]
    replace(tmp_path / "ring", b"new")
    assert not leftover.exists()
    assert all(other.exists() for other in others)


def test_temporary_files_are_named_as_the_next_writer_looks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def look(_descriptor: int) -> None:
        seen.extend(path.name for path in tmp_path.iterdir())

    monkeypatch.setattr(os, "fsync", look)
    replace(tmp_path / "ring", b"new")
    assert any(re.fullmatch(r"\.ring\.[0-9a-f]{16}\.tmp", name) for name in seen)
