"""`statebox keys check`: what a pipeline is told, and with which exit code."""

from pathlib import Path

import pytest

from statebox import Key, Keyring
from statebox.keys import Revocation
from statebox_cli.keys_checking import Limits, examined, rate_of
from tests.cli.keys_commands import Keys, put
from tests.cli.keys_commands import clock as clock  # noqa: PLC0414 - fixtures
from tests.cli.keys_commands import keys as keys  # noqa: PLC0414
from tests.cli.keys_commands import path as path  # noqa: PLC0414
from tests.samples import DAY, NOW, Clock, key

SOUND = (key("old", nbf=NOW - 9 * DAY, exp=NOW + 3000), key("now", nbf=NOW - 660))


def failed(
    *ring: Key, within: int = DAY, max_age: int | None = None, rate: float | None = None
) -> list[tuple[str, str | None]]:
    findings = examined(Keyring(ring), NOW, Limits(within, max_age, rate))
    return [(found.name, found.code) for found in findings if found.status == "fail"]


def test_a_sound_ring_passes(keys: Keys, path: Path) -> None:
    put(path, *SOUND)
    ran = keys("check", "--max-age", "30d", "--rate", "50/s")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("pass") == 8
    assert max(map(len, ran.out.splitlines())) <= 80


def test_what_is_said_of_the_time_ahead_names_how_far_that_is(keys: Keys, path: Path) -> None:
    put(path, *SOUND)
    out = keys("check", "--rate", "50/s", "--within", "2d").out
    assert "some key seals at all times for the next 2 d (--within)\n" in out
    assert "at most 0.20% of 2^32 seals under one key, 2 d from now\n" in out


def test_check_and_list_tell_one_age_of_a_key_that_begins_before_it_was_made(
    keys: Keys, path: Path, clock: Clock
) -> None:
    assert keys("init").code == 0
    (it,) = Keyring.load(path)
    assert (it.iat, it.nbf) == (NOW, NOW - 60)
    clock.now += 5
    assert f"{it.kid} is 5 s old" in keys("check", "--max-age", "5s").out
    assert keys("list", "--json").json["keys"][0]["age"] == 5
    assert keys("check", "--max-age", "5s").code == 0
    assert keys("check", "--max-age", "4s").code == 8


def test_a_revoked_key_is_reckoned_to_have_sealed_until_then(
    keys: Keys, path: Path, clock: Clock
) -> None:
    """The one before it ended when that one took over, and its date is no minute too early."""
    put(path, key("old", nbf=NOW - DAY, iat=NOW - DAY))
    assert keys("rotate", "--activate-in", "0").code == 0
    clock.now += 600
    kid = Keyring.load(path).active(clock.now).kid
    assert keys("revoke", kid, "--reason", "leaked", "--force", "--yes").code == 0
    ran = keys("check")
    assert (ran.code, ran.err) == (0, "")
    old = Keyring.load(path).get("old")
    assert old is not None
    assert old.exp == NOW + 3660


def test_what_was_not_asked_for_is_skipped(keys: Keys, path: Path) -> None:
    put(path, *SOUND)
    said = keys("check", "--json").json
    assert list(said) == ["keyring", "at", "checks", "error"]
    assert [one["name"] for one in said["checks"] if one["status"] == "skipped"] == ["age", "gcm"]
    assert said["error"] is None


def test_a_ring_that_cannot_be_read_fails_with_8(keys: Keys, path: Path) -> None:
    ran = keys("check", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (8, "keyring")
    assert ran.json["checks"][0]["status"] == "fail"
    put(path, *SOUND)
    path.chmod(0o640)
    ran = keys("check")
    assert ran.code == 8
    assert "FAIL  readable" in ran.out
    assert f"chmod 600 {path}" in ran.err


def test_a_ring_without_an_active_key_fails_with_8(keys: Keys, path: Path) -> None:
    put(path, key("next", nbf=NOW + 10))
    ran = keys("check", "--json", "--max-age", "1d")
    assert (ran.code, ran.json["error"]["code"]) == (8, "keyring")
    found = {one["name"]: one["status"] for one in ran.json["checks"]}
    assert (found["active"], found["successor"]) == ("fail", "skipped")
    assert failed(key("gone", exp=NOW), max_age=1) == [("active", "keyring")]
    assert failed(key("dead", revoked=Revocation(NOW))) == [("active", "keyring")]


def test_a_key_that_has_sealed_for_too_long_fails_unless_another_one_is_pending() -> None:
    assert failed(key("it", nbf=NOW - 100), max_age=100) == []
    assert failed(key("it", nbf=NOW - 101), max_age=100) == [("age", "keyring")]
    pending = key("next", nbf=NOW + 600)
    assert failed(key("it", nbf=NOW - 101, exp=NOW + 4260), pending, max_age=100) == []


def test_an_end_without_a_successor_fails_with_9_before_it_comes(keys: Keys, path: Path) -> None:
    put(path, key("it", exp=NOW + 7200))
    ran = keys("check")
    assert ran.code == 9
    assert "FAIL  successor no key seals from 2026-09-21 16:13:20Z, in 2 h" in ran.out
    assert keys("check", "--within", "1h").code == 0
    assert ("successor", "refused") in failed(key("it", exp=NOW + 10), key("next", nbf=NOW + 11))
    assert failed(key("it", exp=NOW + 3671), key("next", nbf=NOW + 11)) == []


def test_an_end_before_the_last_token_has_expired_fails_with_9(keys: Keys, path: Path) -> None:
    late, early = NOW - 660 + 3660, NOW - 660 + 3659
    assert failed(key("old", exp=late), key("now", nbf=NOW - 660)) == []
    assert failed(key("old", exp=early), key("now", nbf=NOW - 660)) == [("endings", "refused")]
    assert failed(key("old", exp=early), key("now", nbf=NOW - 660), within=2000) == []
    put(path, key("old", exp=NOW + 5), key("now", nbf=NOW - 660))
    ran = keys("check")
    assert ran.code == 9
    assert "49 min 55 s before the last of its tokens" in ran.out


def test_a_key_without_an_end_that_was_taken_over_from_fails_with_8() -> None:
    assert failed(key("imported", nbf=0), key("now")) == [("endless", "keyring")]
    assert failed(key("now"), key("next", nbf=NOW + 60)) == []


def test_the_use_of_aes_gcm_is_reckoned_against_its_bound() -> None:
    """2^32 seals under one key with random nonces: SP 800-38D §8.3."""
    it = key("it", nbf=NOW - DAY)
    assert failed(it, rate=2**32 / (2 * DAY) - 0.001) == []
    assert failed(it, rate=2**32 / (2 * DAY)) == [("gcm", "keyring")]
    assert failed(it, rate=2**32 / (2 * DAY), within=DAY - 1) == []
    assert failed(key("it", "HS256", nbf=NOW - DAY), rate=1e9) == []
    # A key that is taken over from in time is within its bound, and its successor reckons anew.
    both = (it.replace(exp=NOW + 3661), key("next", nbf=NOW + 1))
    assert failed(*both, rate=2**32 / (2 * DAY)) == []


def test_a_key_that_was_promoted_is_as_old_as_before_and_has_sealed_as_much(
    keys: Keys, path: Path
) -> None:
    put(path, key("it", nbf=NOW - 2 * DAY, iat=NOW - 2 * DAY))
    assert keys("rotate", "--activate-in", "0").code == 0
    assert keys("promote", "it", "--now", "--yes", "--force").code == 0
    it = Keyring.load(path).get("it")
    assert it is not None
    assert it.nbf >= NOW  # yet what is counted begins with its iat
    begun_again = it.replace(nbf=NOW)
    assert failed(begun_again, max_age=2 * DAY, rate=2**32 / (3 * DAY) - 0.001) == []
    assert failed(begun_again, max_age=2 * DAY - 1) == [("age", "keyring")]
    assert failed(begun_again, rate=2**32 / (3 * DAY)) == [("gcm", "keyring")]


def test_a_key_to_come_has_sealed_nothing_yet() -> None:
    """Its iat may lie days before its nbf."""
    ring = (key("it", exp=NOW + 3661), key("next", nbf=NOW + 1, iat=NOW - 2 * DAY))
    assert failed(*ring, rate=2**32 / (2 * DAY)) == []


def test_a_clock_that_is_behind_fails_with_8(keys: Keys, path: Path) -> None:
    assert failed(key("it", iat=NOW + 60)) == []
    assert failed(key("it", iat=NOW + 61)) == [("clock", "keyring")]
    put(path, key("it"), key("dead", nbf=5, revoked=Revocation(NOW + 3600)))
    ran = keys("check")
    assert ran.code == 8
    assert "FAIL  clock     this clock is behind: dead was changed in 1 h" in ran.out
    assert "hint: set the clock" in ran.err


def test_looking_back_is_no_clock_that_is_behind(keys: Keys, path: Path) -> None:
    put(path, key("it", nbf=NOW - DAY, iat=NOW - DAY // 2))
    assert keys("check", "--at", str(NOW - DAY + 5)).code == 0


def test_unsafe_now_comes_before_unsafe_later(keys: Keys, path: Path) -> None:
    put(path, key("it", exp=NOW + 60))
    assert keys("check").code == 9
    ran = keys("check", "--max-age", "1s", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (8, "keyring")


@pytest.mark.parametrize(
    ("text", "rate"),
    [("50", 50), ("50/s", 50), ("3000/m", 50), ("1.5/h", 1.5 / 3600), ("2e6/d", 2e6 / DAY)],
)
def test_a_rate_has_a_unit(text: str, rate: float) -> None:
    assert rate_of(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "-1", "5/y", "1.2.3", "nan", "1e999999999/s/s"])
def test_what_is_no_rate_is_refused(keys: Keys, path: Path, text: str) -> None:
    put(path, *SOUND)
    assert keys("check", f"--rate={text}").code == 2


def test_the_hint_is_to_rotate(keys: Keys, path: Path) -> None:
    put(path, key("it", exp=NOW + 60))
    assert "hint: run `statebox keys rotate`" in keys("check").err


def test_check_judges_as_of_any_time(keys: Keys, path: Path) -> None:
    put(path, *SOUND)
    assert keys("check", "--at", str(NOW - 20 * DAY)).code == 8
