"""`statebox keys init` and `rotate`."""

import stat
from pathlib import Path

import pytest

from statebox import Keyring
from tests.cli.keys_commands import Keys, kids, put
from tests.cli.keys_commands import clock as clock  # noqa: PLC0414 - fixtures
from tests.cli.keys_commands import keys as keys  # noqa: PLC0414
from tests.cli.keys_commands import path as path  # noqa: PLC0414
from tests.samples import NOW, Clock, key


def test_init_makes_a_private_ring_of_one_active_key(keys: Keys, path: Path) -> None:
    ran = keys("init")
    assert (ran.code, ran.err) == (0, "")
    ring = Keyring.load(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (len(ring), ring.max_ttl, ring.active(NOW).alg) == (1, 3600, "A256GCM")
    assert ring.active(NOW).iat == NOW
    assert ring.active(NOW).kid in ran.out
    # A replica whose clock is behind can seal at once as well.
    assert ring.active(NOW - 60) is ring.active(NOW)


def test_a_key_that_seals_at_once_is_not_said_to_have_begun_in_the_past(
    keys: Keys, path: Path
) -> None:
    said = keys("init").out.splitlines()[0]
    assert said == f"{kids(path)[0]} is new, for A256GCM; seals from now on"
    said = keys("rotate", "--activate-in", "0").out
    assert f"{kids(path)[1]} is new, for A256GCM; seals from now on" in said
    said = keys("revoke", kids(path)[1], "--reason", "leaked", "--force", "--yes").out
    assert "is new, for A256GCM; seals from now on" in said


def test_init_takes_an_algorithm_and_a_longest_life(keys: Keys, path: Path) -> None:
    assert keys("init", "--alg", "HS256", "--max-ttl", "2h").code == 0
    ring = Keyring.load(path)
    assert (ring.active(NOW).alg, ring.max_ttl) == ("HS256", 7200)
    assert keys("init", "--alg", "none", "--force", "--yes").code == 2


def test_init_does_not_overwrite_a_ring(keys: Keys, path: Path) -> None:
    before = put(path, key("one"))
    ran = keys("init", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (9, "refused")
    assert keys("init", "--force").code == 2  # nobody to ask
    assert keys("init", "--force", "--dry-run").code == 0
    assert Keyring.load(path) == before
    assert keys("init", "--force", "--yes").code == 0
    assert kids(path) != ["one"]


def test_init_shows_beforehand_and_writes_nothing_then(keys: Keys, path: Path) -> None:
    ran = keys("init", "--dry-run", "--json")
    assert (ran.code, ran.json["written"], ran.json["before"]) == (0, False, [])
    assert "nothing was written" in ran.err
    assert not path.exists()


def test_rotate_adds_a_key_to_come_and_dates_the_one_before_it(keys: Keys, path: Path) -> None:
    put(path, key("old"))
    ran = keys("rotate")
    assert (ran.code, ran.err) == (0, "")
    old, new = Keyring.load(path)
    assert (old.exp, new.nbf, new.exp) == (NOW + 600 + 3660, NOW + 600, None)
    assert f"{new.kid} is new, for A256GCM; seals from 2026-09-21 14:23:20Z, in 10 min" in ran.out
    assert "old opens until 2026-09-21 15:24:20Z, in 1 h 11 min" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_rotate_gives_one_json_object_with_before_and_after(keys: Keys, path: Path) -> None:
    put(path, key("old"))
    said = keys("rotate", "--activate-in", "20m", "--json").json
    assert list(said) == ["keyring", "dry_run", "before", "after", "rejects", "written", "error"]
    assert (said["keyring"], said["dry_run"], said["written"]) == (f"file:{path}", False, True)
    assert [one["role"] for one in said["before"]] == ["active"]
    assert [one["role"] for one in said["after"]] == ["active", "pending"]
    assert said["after"][1]["seals_from"] == NOW + 1200
    assert (said["rejects"], said["error"]) == ([], None)


def test_a_dry_run_of_rotate_shows_both_rings_and_writes_nothing(keys: Keys, path: Path) -> None:
    before = put(path, key("old"))
    ran = keys("rotate", "--dry-run")
    assert ran.code == 0
    assert "BEFORE" in ran.out
    assert "AFTER" in ran.out
    assert "nothing was written" in ran.err
    assert Keyring.load(path) == before
    assert [entry.name for entry in path.parent.iterdir()] == ["ring.json"]  # no lock either


def test_no_output_of_a_rotation_holds_a_secret(keys: Keys, path: Path) -> None:
    put(path, key("old"))
    ran = [keys("rotate", *options) for options in ((), ("--json",), ("--dry-run",))]
    said = "".join(one.out + one.err for one in ran)
    for one in Keyring.load(path):
        assert one.to_jwk()["k"] not in said
        assert one.fingerprint in said


def test_rotate_goes_from_signed_to_encrypted(keys: Keys, path: Path) -> None:
    put(path, key("old", "HS256"))
    assert keys("rotate", "--alg", "A256GCM").code == 0
    assert [one.alg for one in Keyring.load(path)] == ["HS256", "A256GCM"]
    assert "can be read by the client" in keys("rotate", "--alg", "HS256").err


def test_a_rotation_too_short_for_slow_sources_is_remarked_on(keys: Keys, path: Path) -> None:
    put(path, key("old"))
    ran = keys("rotate", "--activate-in", "30s")
    assert ran.code == 0
    assert "a replica that reads the ring less often than every 30 s rejects" in ran.err
    assert keys("rotate", "--activate-in", "1m").err == ""
    said = keys("rotate", "--activate-in", "0").err.splitlines()[0]
    assert said == "statebox: a replica rejects tokens of the new key until it has read the ring"


def test_one_rotation_after_another_takes_over_in_the_order_of_time(
    keys: Keys, path: Path, clock: Clock
) -> None:
    put(path, key("first"))
    for _ in range(5):
        assert keys("rotate", "--activate-in", "1h").code == 0
        clock.now += 1800
    ring = Keyring.load(path)
    assert [one.nbf - NOW for one in ring][1:] == [3600, 5400, 7200, 9000, 10800]
    assert [one.exp - NOW if one.exp else None for one in ring] == [
        7260, 9060, 10860, 12660, 14460, None,
    ]  # fmt: skip


@pytest.mark.parametrize("content", ["", "{", '{"keys": []}'])
def test_a_ring_that_cannot_be_read_is_not_rotated(keys: Keys, path: Path, content: str) -> None:
    path.touch(0o600)
    path.write_text(content)
    ran = keys("rotate")
    assert (ran.code, ran.out) == (8, "")
    assert path.read_text() == content


def test_loose_permissions_stop_a_rotation_and_say_what_mends_them(keys: Keys, path: Path) -> None:
    put(path, key("old"))
    path.chmod(0o644)
    ran = keys("rotate")
    assert ran.code == 8
    assert f"chmod 600 {path}" in ran.err


def test_a_duration_that_no_ring_can_have_is_the_options_fault(keys: Keys, path: Path) -> None:
    for life in ("0", "367d", "999999999d"):
        ran = keys("init", "--max-ttl", life, "--json")
        assert (ran.code, ran.json["error"]["code"]) == (2, "usage")
    assert "--max-ttl" in keys("init", "--max-ttl", "0").err
    assert not path.exists()
    before = put(path, key("old"))
    assert keys("rotate", "--activate-in", "999999999d").code == 2
    assert Keyring.load(path) == before
    assert keys("rotate", "--activate-in", "36500d").code == 0


def test_a_keyring_must_be_named(keys: Keys) -> None:
    assert keys("rotate").code == 2
    assert "--keyring" in keys("rotate").err
    assert keys("rotate", "--keyring", "s3://bucket").code == 8


def test_keys_without_a_command_lists_them(keys: Keys) -> None:
    ran = keys()
    assert ran.code == 0
    for command in ("init", "list", "rotate", "promote", "revoke", "retire", "prune", "check"):
        assert f"\n  {command} " in ran.out
