"""`statebox keys promote`, `revoke`, `retire` and `prune`: what takes something away."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from statebox import Keyring
from statebox.keys import Revocation
from tests.cli.keys_commands import COMMAND, Keys, environment, kids, put
from tests.cli.keys_commands import clock as clock  # noqa: PLC0414 - fixtures
from tests.cli.keys_commands import keys as keys  # noqa: PLC0414
from tests.cli.keys_commands import path as path  # noqa: PLC0414
from tests.samples import NOW, Clock, key

OLD = key("old", nbf=NOW - 9000, exp=NOW + 3000)
ACTIVE = key("active", nbf=NOW - 1000)
PENDING = key("pending", nbf=NOW + 600)


@pytest.fixture
def ring(path: Path) -> Keyring:
    """A ring in the middle of a rotation, before the next one."""
    return put(path, OLD, ACTIVE.replace(exp=NOW + 600 + 3660), PENDING)


@pytest.mark.usefixtures("ring")
def test_promote_lets_a_pending_key_seal_now(keys: Keys, path: Path) -> None:
    ran = keys("promote", "pending", "--now", "--yes")
    assert ran.code == 0
    after = Keyring.load(path)
    assert after.active(NOW).kid == "pending"
    assert "active opens until 2026-09-21 15:14:20Z, in 1 h 1 min" in ran.out


@pytest.mark.usefixtures("ring")
def test_promote_says_now_and_asks(keys: Keys) -> None:
    assert keys("promote", "pending", "--yes").code == 2
    ran = keys("promote", "pending", "--now")
    assert (ran.code, ran.out) == (2, "")
    assert "give --yes" in ran.err


@pytest.mark.usefixtures("ring")
def test_promote_goes_back_to_an_earlier_key(keys: Keys, path: Path) -> None:
    assert keys("promote", "old", "--now", "--yes").code == 0
    assert Keyring.load(path).active(NOW).kid == "old"


@pytest.mark.usefixtures("ring")
def test_promoting_the_active_key_changes_nothing(keys: Keys, path: Path, ring: Keyring) -> None:
    ran = keys("promote", "active", "--now", "--yes", "--json")
    assert (ran.code, ran.json["written"]) == (0, False)
    assert Keyring.load(path) == ring


def test_promote_refuses_what_has_ended(keys: Keys, path: Path) -> None:
    put(path, key("expired", exp=NOW - 5), key("dead", nbf=5, revoked=Revocation(NOW)), ACTIVE)
    for kid, code in (("expired", "expired_key"), ("dead", "revoked_key"), ("no", "unknown_key")):
        ran = keys("promote", kid, "--now", "--yes", "--json")
        assert (ran.code, ran.json["error"]["code"]) == (5, code)


def test_promote_refuses_to_leave_a_clock_that_is_behind_without_a_key(
    keys: Keys, path: Path, clock: Clock
) -> None:
    put(path, OLD, key("active", nbf=NOW - 30))
    ran = keys("promote", "old", "--now", "--yes")
    assert ran.code == 9
    assert "whose clock is behind" in ran.err
    clock.now += 31
    assert keys("promote", "old", "--now", "--yes").code == 0


@pytest.mark.parametrize(
    ("kid", "until"),
    [
        ("old", "2026-09-21 14:57:40Z, in 44 min 20 s"),  # taken over from 1000 s ago
        ("active", "2026-09-21 15:14:20Z, in 1 h 1 min"),
    ],
)
def test_revoke_is_refused_while_tokens_can_be_alive_and_says_until_when(
    keys: Keys, path: Path, ring: Keyring, kid: str, until: str
) -> None:
    ran = keys("revoke", kid, "--reason", "leaked", "--yes")
    assert (ran.code, ran.out) == (9, "")
    assert f"tokens of {kid} can be alive until {until}" in ran.err
    assert "--force" in ran.err
    assert Keyring.load(path) == ring


@pytest.mark.usefixtures("ring")
def test_a_refusal_in_json_says_what_would_be_rejected(keys: Keys) -> None:
    ran = keys("revoke", "active", "--reason", "leaked", "--json")
    assert ran.code == 9
    assert ran.json["rejects"] == [{"kid": "active", "until": NOW + 3660}]
    assert (ran.json["written"], ran.json["error"]["code"]) == (False, "refused")
    assert [one["role"] for one in ran.json["after"]].count("revoked") == 1


@pytest.mark.usefixtures("ring")
def test_revoke_by_force_rejects_at_once_and_seals_on_with_a_fresh_key(
    keys: Keys, path: Path
) -> None:
    ran = keys("revoke", "active", "--reason", "in a gist", "--force", "--yes")
    assert ran.code == 0
    after = Keyring.load(path)
    dead = after.get("active")
    assert dead is not None
    assert dead.revoked == Revocation(NOW, "in a gist")
    fresh = after.active(NOW)
    assert fresh.kid not in {"old", "active", "pending"}
    assert "in a gist" in ran.out


@pytest.mark.usefixtures("ring")
def test_a_pending_key_is_revoked_without_force(keys: Keys, path: Path) -> None:
    assert keys("revoke", "pending", "--reason", "leaked", "--yes").code == 0
    active = Keyring.load(path).get("active")
    assert active is not None
    assert active.exp is None  # it has no successor any more


def test_revoking_twice_keeps_the_first_reason(keys: Keys, path: Path) -> None:
    put(path, key("dead", nbf=5, revoked=Revocation(NOW - 10, "first")), ACTIVE)
    ran = keys("revoke", "dead", "--reason", "second", "--yes")
    assert (ran.code, "nothing to change" in ran.out) == (0, True)
    dead = Keyring.load(path).get("dead")
    assert dead is not None
    assert dead.revoked == Revocation(NOW - 10, "first")


@pytest.mark.usefixtures("ring")
def test_revoke_needs_a_reason(keys: Keys) -> None:
    assert keys("revoke", "active", "--force", "--yes").code == 2


def test_retire_waits_until_the_last_token_has_expired(
    keys: Keys, path: Path, clock: Clock
) -> None:
    put(path, key("old", nbf=NOW - 9000), ACTIVE)  # imported, so it has no end
    assert keys("retire", "old", "--yes").code == 9
    clock.now = NOW - 1000 + 3660 - 1
    assert keys("retire", "old", "--yes").code == 9
    clock.now += 1
    assert keys("retire", "old", "--yes").code == 0
    old = Keyring.load(path).get("old")
    assert old is not None
    assert old.exp == clock.now


@pytest.mark.usefixtures("ring")
def test_retire_by_force_does_not_wait(keys: Keys, path: Path) -> None:
    assert keys("retire", "old", "--force", "--yes").code == 0
    ring = Keyring.load(path)
    assert [ring.role(one, NOW) for one in ring] == ["expired", "active", "pending"]


@pytest.mark.usefixtures("ring")
def test_retire_gives_up_a_pending_key(keys: Keys, path: Path) -> None:
    ran = keys("retire", "pending")  # in a script, where nobody can be asked
    assert (ran.code, "give --yes" in ran.err, len(kids(path))) == (2, True, 3)
    assert keys("retire", "pending", "--yes").code == 0
    assert kids(path) == ["old", "active"]
    assert Keyring.load(path).active(NOW).exp is None


@pytest.mark.usefixtures("ring")
def test_the_active_key_is_not_retired_even_by_force(keys: Keys) -> None:
    ran = keys("retire", "active", "--force", "--yes")
    assert ran.code == 9
    assert "rotate" in ran.err


def test_retiring_what_has_ended_changes_nothing(keys: Keys, path: Path) -> None:
    put(path, key("expired", exp=NOW - 5), ACTIVE)
    assert "nothing to change" in keys("retire", "expired", "--yes").out


def test_prune_takes_out_what_has_ended(keys: Keys, path: Path) -> None:
    put(path, key("expired", exp=NOW - 60), key("ended", nbf=NOW - 9000, exp=NOW - 5), ACTIVE)
    assert keys("prune").code == 2  # a secret is lost by it, so it asks
    ran = keys("prune", "--yes")
    assert (ran.code, "expired is taken out" in ran.out) == (0, True)
    assert kids(path) == ["ended", "active"]
    assert "nothing to change" in keys("prune").out


def test_prune_says_from_when_what_has_ended_can_go(keys: Keys, path: Path, clock: Clock) -> None:
    dead = key("dead", nbf=NOW - 4000, revoked=Revocation(NOW - 5))
    put(path, key("ended", nbf=NOW - 9000, exp=NOW - 5), dead, ACTIVE)
    ran = keys("prune", "--yes")
    assert ran.out.splitlines()[:4] == [
        "nothing to change",
        "ended can be taken out from 2026-09-21 14:14:15Z, in 55 s",
        "dead can be taken out from 2026-09-21 15:14:15Z, in 1 h",
        "",
    ]
    clock.now += 55
    ran = keys("prune", "--yes")
    assert ran.out.splitlines()[:3] == [
        "ended is taken out",
        "dead can be taken out from 2026-09-21 15:14:15Z, in 1 h",
        "",
    ]
    clock.now += 3599
    assert keys("prune", "--yes").out.splitlines()[0] == "nothing to change"
    clock.now += 1
    assert keys("prune", "--yes").out.splitlines()[:2] == ["dead is taken out", ""]


def test_prune_does_not_take_out_the_last_key(keys: Keys, path: Path) -> None:
    before = put(path, key("expired", exp=NOW - 60))
    assert keys("prune", "--yes").code == 8
    assert Keyring.load(path) == before


@pytest.mark.parametrize(
    "command",
    [
        ("retire", "next", "--yes"),
        ("promote", "next", "--now", "--yes"),
        ("revoke", "next", "--reason", "leaked", "--yes"),
        ("prune", "--yes"),
        ("rotate",),
    ],
)
def test_a_clock_that_is_behind_changes_nothing_without_force(
    keys: Keys, path: Path, clock: Clock, command: tuple[str, ...]
) -> None:
    """By it the key that seals is still to come, and would be taken out as if unused."""
    ring = put(path, key("old", exp=NOW + 3660), key("next", nbf=NOW - 10, iat=NOW - 10))
    clock.now = NOW - 3600
    ran = keys(*command, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (9, "refused")
    assert (
        ran.json["error"]["message"]
        == "this clock is behind: by it, next was changed in 59 min 50 s"
    )
    assert [one["kid"] for one in ran.json["before"]] == ["old", "next"]
    assert Keyring.load(path) == ring
    assert keys(*command, "--force").code == 0
    clock.now = NOW - 70  # as far as two clocks may differ
    put(path, *ring)
    assert "clock is behind: by it" not in keys(*command).err


@pytest.mark.usefixtures("ring")
def test_every_refusal_has_the_same_members(keys: Keys) -> None:
    refusals = [
        keys("retire", "active", "--yes", "--json"),
        keys("revoke", "active", "--reason", "leaked", "--yes", "--json"),
        keys("promote", "nobody", "--now", "--yes", "--json"),
        keys("init", "--json"),
    ]
    members = ["keyring", "dry_run", "before", "after", "rejects", "written", "error"]
    assert [ran.code for ran in refusals] == [9, 9, 5, 9]
    assert [list(ran.json) for ran in refusals] == [members] * 4


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\x04", 1)])
def test_at_a_terminal_the_question_comes_with_what_it_would_reject(
    path: Path, answer: bytes, code: int
) -> None:
    before = Keyring.generate()
    path.touch(0o600)
    path.write_text(before.to_json())
    (one,) = before
    ours, theirs = pty.openpty()
    command = [*COMMAND, "revoke", one.kid, "--reason", "x", "--force"]
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(STATEBOX_KEYRING=str(path)),
    ) as process:
        os.write(ours, answer)
        _, err = process.communicate()
    os.close(ours)
    os.close(theirs)
    assert process.returncode == code
    assert f"REJECTS tokens of {one.kid}, alive until" in err
    assert f"Revoke {one.kid}? [y/N]" in err
    # After the end of the input the question still stands there, without a line break.
    assert ("[y/N]: \nstatebox: aborted" in err) is (answer == b"\x04")
    assert (Keyring.load(path) == before) is (code != 0)
