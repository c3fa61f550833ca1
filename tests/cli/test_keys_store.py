"""Where the key commands write: files, a Redis, stdout; two operators at once, and kill -9."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from statebox import Keyring
from statebox.sources.redis import RedisReader
from statebox_cli import keys_store
from statebox_cli.keys_store import ChangedError, FileStore, change, store_of
from statebox_cli.rotation import rotated
from tests.accounts import NOBODY, as_root, folder_of_nobody
from tests.accounts import open_folder as open_folder  # noqa: PLC0414 - fixtures
from tests.cli.keys_commands import COMMAND, Keys, environment, kids, put
from tests.cli.keys_commands import clock as clock  # noqa: PLC0414
from tests.cli.keys_commands import keys as keys  # noqa: PLC0414
from tests.cli.keys_commands import path as path  # noqa: PLC0414
from tests.redis_server import redis_port as redis_port  # noqa: PLC0414
from tests.redis_server import redis_url as redis_url  # noqa: PLC0414
from tests.samples import NOW, key


def rotation(ring: Keyring) -> Keyring:
    return rotated(ring, NOW, activate_in=600)


def yes(_before: Keyring, _after: Keyring) -> bool:
    return True


@pytest.fixture(params=["file", "redis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of each kind of place that is written to."""
    if request.param == "file":
        return str(tmp_path / "ring.json")
    url: str = request.getfixturevalue("redis_url")
    return url


def test_a_whole_life_of_a_ring(keys: Keys, address: str) -> None:
    assert keys("init", "--keyring", address).code == 0
    assert keys("init", "--keyring", address).code == 9
    assert keys("rotate", "--keyring", address).code == 0
    said = keys("list", "--keyring", address, "--json").json
    assert [one["role"] for one in said["keys"]] == ["active", "pending"]
    assert keys("check", "--keyring", address).code == 0
    assert keys("diff", address, address).code == 0
    assert keys("retire", said["keys"][1]["kid"], "--keyring", address, "--yes").code == 0
    assert len(store_of(address).read()) == 1
    assert keys("init", "--keyring", address, "--force", "--yes").code == 0


def test_two_operators_at_once_both_have_their_change(address: str) -> None:
    store = store_of(address)
    store.create(Keyring([key("first")]))
    theirs: list[Keyring] = []

    def slow(ring: Keyring) -> Keyring:
        if not theirs:  # while this one thinks, another one rotates
            theirs.extend(change(store_of(address), rotation, yes)[:2])
        return rotation(ring)

    before, after, written = change(store, slow, yes)
    assert written
    assert len(before) == 2
    assert before == theirs[1]
    assert (store.read(), len(after)) == (after, 3)


def test_who_is_overtaken_again_and_again_is_told_to_try_again(address: str) -> None:
    store = store_of(address)
    store.create(Keyring([key("first")]))

    def overtaken(ring: Keyring) -> Keyring:
        store.swap(store.read(), rotation(store.read()))
        return rotation(ring)

    with pytest.raises(ChangedError, match="was changed by someone else") as caught:
        change(store, overtaken, yes)
    assert "try again" in caught.value.hint
    assert len(store.read()) == 1 + keys_store.ATTEMPTS


def test_of_two_who_make_a_ring_one_is_refused(address: str) -> None:
    store_of(address).create(Keyring([key("first")]))
    with pytest.raises(Exception, match="exists already"):
        store_of(address).create(Keyring([key("second")]))
    assert [one.kid for one in store_of(address).read()] == ["first"]


def test_redis_refuses_a_write_that_comes_between_watch_and_multi(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(redis_url)
    before = Keyring([key("first")])
    store.create(before)
    theirs = Keyring([key("theirs")])
    to_json = Keyring.to_json

    def late(ring: Keyring) -> str:
        if ring.get("mine"):  # asked for after the comparison, before the transaction ends
            store_of(redis_url).create(theirs, force=True)
        return to_json(ring)

    monkeypatch.setattr(Keyring, "to_json", late)
    with pytest.raises(ChangedError):
        store.swap(before, Keyring([key("mine")]))
    assert store.read() == theirs


def test_a_ring_that_vanished_is_a_change(redis_url: str) -> None:
    store = store_of(redis_url)
    before = Keyring([key("first")])
    with pytest.raises(ChangedError):
        store.swap(before, before)
    reader = RedisReader(redis_url)
    with reader.connection() as client:
        assert not client.exists(reader.key)


def test_what_cannot_be_written_to_is_printed_to_be_piped_on(
    keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ring = Keyring([key("first")])
    monkeypatch.setenv("RING", ring.to_json())
    put(tmp_path / "ring", key("first"))
    for address in ("env:RING", f"cmd:cat {tmp_path}/ring"):
        ran = keys("rotate", "--keyring", address)
        assert ran.code == 0
        after = Keyring.from_json(ran.out)
        assert [after.role(one, NOW) for one in after] == ["active", "pending"]
        assert "cannot be written to: the new ring is on stdout" in ran.err
        assert "█ seals" in ran.err
        for one in after:
            assert one.to_jwk()["k"] not in ran.err
        assert keys("rotate", "--keyring", address, "--dry-run", "--json").json["written"] is False


def test_init_and_import_print_a_ring_for_a_variable(keys: Keys) -> None:
    assert len(Keyring.from_json(keys("init", "--keyring", "env:NEW").out)) == 1
    text = json.dumps(key("theirs").to_jwk())
    ran = keys("import", "-", "--keyring", "env:NEW", stdin=text)
    assert [one.kid for one in Keyring.from_json(ran.out)] == ["theirs"]


def test_a_ring_is_not_printed_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [*COMMAND, "init", "--keyring", "env:NEW"]
    with subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        _, err = process.communicate()
    os.close(theirs)
    os.set_blocking(ours, False)
    with pytest.raises(OSError):  # noqa: PT011 - EIO: nothing was written, and it is closed
        os.read(ours, 100)
    os.close(ours)
    assert process.returncode == 2
    assert "not written to a terminal" in err


def test_a_link_to_the_ring_stays_a_link(keys: Keys, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    put(tmp_path / "real" / "ring.json", key("first"))
    (tmp_path / "ring.json").symlink_to("real/ring.json")
    assert keys("rotate", "--keyring", tmp_path / "ring.json").code == 0
    assert (tmp_path / "ring.json").is_symlink()
    assert len(kids(tmp_path / "real" / "ring.json")) == 2


@as_root
def test_root_rotates_the_ring_of_a_service_and_it_stays_the_services(
    keys: Keys, open_folder: Path
) -> None:
    folder = folder_of_nobody(open_folder)
    put(folder / "ring.json", key("first"))
    os.chown(folder / "ring.json", NOBODY, NOBODY)
    assert keys("rotate", "--keyring", folder / "ring.json").code == 0
    assert (folder / "ring.json").stat().st_uid == NOBODY
    (open_folder / "link").symlink_to(folder / "ring.json")
    ran = keys("rotate", "--keyring", open_folder / "link")
    assert (ran.code, "a folder of another owner" in ran.err) == (8, True)


def test_a_store_knows_whether_something_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(str(tmp_path / "ring"))
    assert isinstance(store, FileStore)
    assert not store.exists()
    (tmp_path / "ring").symlink_to("nowhere")
    assert store.exists()
    monkeypatch.setenv("RING", "x")
    assert store_of("env:RING").exists()
    assert store_of("cmd:true").exists()
    assert not store_of("env:NONE").exists()
    monkeypatch.setenv("RING", "")
    assert not store_of("env:RING").exists()


@pytest.mark.parametrize("kind", ["env:RING", "cmd:cat {}"])
def test_init_does_not_print_a_ring_for_a_place_that_has_one(
    keys: Keys, path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("RING", put(path, key("one")).to_json())
    ran = keys("init", "--keyring", kind.format(path))
    assert (ran.code, ran.out) == (9, "")
    assert "exists already" in ran.err
    assert keys("init", "--keyring", kind.format(path), "--force").code == 2  # nobody to ask
    ran = keys("init", "--keyring", kind.format(path), "--force", "--yes")
    assert (ran.code, len(Keyring.from_json(ran.out))) == (0, 1)


def test_what_is_printed_is_the_ring_also_where_nothing_was_to_change(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Keyring([key("one")])
    monkeypatch.setenv("RING", ring.to_json())
    ran = keys("prune", "--keyring", "env:RING")
    assert (ran.code, Keyring.from_json(ran.out)) == (0, ring)
    assert "nothing to change" in ran.err


def processes(path: Path, number: int) -> list[subprocess.Popen[bytes]]:
    command = [*COMMAND, "rotate", "--keyring", str(path), "--json"]
    return [
        subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
        )
        for _ in range(number)
    ]


def test_rotations_by_processes_at_once_are_all_in_the_ring(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    put(path, key("first"))
    running = processes(path, 4)
    assert [process.wait() for process in running] == [0] * 4
    ring = Keyring.load(path)
    assert len(ring) == 5
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".ring.json.lock", "ring.json"]
