"""statebox.sources.file: a file that is swapped, cut short, removed, loosened or replaced."""

import os
import threading
from pathlib import Path

import pytest

from statebox import Keyring, KeyringError
from statebox.files import locked
from statebox.sources import LiveSource, open_source
from tests.samples import NOW, Clock, key

ONE = Keyring([key("one")])
TWO = Keyring([key("one"), key("two", nbf=NOW - 60)])


def write(path: Path, ring: Keyring) -> Path:
    path.write_text(ring.to_json())
    path.chmod(0o600)
    return path


def opened(path: Path) -> tuple[LiveSource, Clock]:
    clock = Clock()
    return open_source(str(path), monotonic=clock), clock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "ring.json", ONE)


def test_a_change_is_seen_within_one_second(path: Path) -> None:
    source, clock = opened(path)
    with locked(path) as file:
        file.replace(TWO.to_json().encode())
    assert source.current() == ONE
    clock.now += 1
    assert source.current() == TWO


def test_a_file_that_is_written_in_place_is_seen_too(path: Path) -> None:
    source, clock = opened(path)
    inode = path.stat().st_ino
    path.write_text(TWO.to_json())
    assert path.stat().st_ino == inode
    clock.now += 1
    assert source.current() == TWO


def test_a_file_of_the_same_size_and_time_is_told_from_the_old_one(path: Path) -> None:
    source, clock = opened(path)
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    other = Keyring([key("two")])
    assert len(other.to_json()) == len(ONE.to_json())
    write(path, other)
    os.utime(path, ns=times)
    clock.now += 1
    assert source.current() == other


def test_the_swap_of_links_that_kubernetes_does_is_seen(tmp_path: Path) -> None:
    """A mounted secret is ring.json -> ..data/ring.json, ..data -> ..2026_1; only ..data is swapped."""
    for folder, ring in (("..2026_1", ONE), ("..2026_2", TWO)):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "ring.json", ring)
    (tmp_path / "..data").symlink_to("..2026_1")
    (tmp_path / "ring.json").symlink_to("..data/ring.json")
    source, clock = opened(tmp_path / "ring.json")
    (tmp_path / "..data_tmp").symlink_to("..2026_2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    for left in (tmp_path / "..2026_1").iterdir():
        left.unlink()
    clock.now += 1
    assert source.current() == TWO


def test_a_file_that_is_cut_short_for_two_seconds_changes_nothing(path: Path) -> None:
    source, clock = opened(path)
    whole = TWO.to_json()
    for seconds in range(2):
        path.write_text(whole[: 10 + 200 * seconds])
        clock.now += 1
        assert source.current() == ONE
    path.write_text(whole)
    clock.now += 1
    assert source.current() == TWO


def test_a_file_that_was_removed_changes_nothing_until_it_is_back(path: Path) -> None:
    source, clock = opened(path)
    path.unlink()
    clock.now += 1
    assert source.current() == ONE
    assert source.reread() == ONE
    write(path, TWO)
    clock.now += 1
    assert source.current() == TWO


def test_loosened_permissions_are_noticed_and_what_is_written_then_is_not_believed(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, clock = opened(path)
    path.chmod(0o644)
    clock.now += 1
    assert source.current() == ONE
    assert f"{path} can be read by others (mode 0644)" in caplog.text
    assert f"chmod 600 {path}" in caplog.text
    path.write_text(TWO.to_json())
    clock.now += 1
    assert source.current() == ONE
    path.chmod(0o600)
    clock.now += 1
    assert source.current() == TWO


def test_permissions_that_are_loose_at_the_start_fail_loudly(path: Path) -> None:
    path.chmod(0o640)
    with pytest.raises(KeyringError, match="can be read by others"):
        open_source(str(path))


def test_a_revocation_is_believed_although_no_key_is_left_to_seal_with(path: Path) -> None:
    """A ring that can do less is not a broken one: a leaked key must not live on."""
    source, clock = opened(path)
    empty = Keyring([key("one", exp=NOW - 10)])
    write(path, empty)
    clock.now += 1
    assert source.current() == empty


def test_an_unknown_kid_sees_a_change_at_once_but_not_ten_times_a_second(path: Path) -> None:
    source, clock = opened(path)
    write(path, TWO)
    assert source.reread() == TWO
    write(path, ONE)
    assert source.reread() == TWO
    clock.now += 0.1
    assert source.reread() == ONE


def test_an_unknown_kid_waits_for_the_thread_that_is_reading_already(path: Path) -> None:
    """All replicas' first tokens under a new key come at once; each finds the key."""
    source, clock = opened(path)
    start = threading.Barrier(8)
    seen: list[Keyring] = []
    for round_ in range(50):
        ring = Keyring([key("one"), key(f"two-{round_}", nbf=NOW - 60)])
        write(path, ring)
        clock.now += 0.2  # beyond the limit for unknown kids, before the next look

        def find(seen: list[Keyring] = seen) -> None:
            start.wait()
            seen.append(source.reread())

        threads = [threading.Thread(target=find) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [ring] * 8
        seen.clear()


def test_a_relative_path_is_taken_from_the_folder_of_the_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    clock = Clock()
    source = open_source("file:ring.json", monotonic=clock)
    monkeypatch.chdir("/")
    write(path, TWO)
    clock.now += 1
    assert source.current() == TWO
