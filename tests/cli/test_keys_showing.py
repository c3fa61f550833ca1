"""`statebox keys list`: what it shows, in 80 columns, with and without colour."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from statebox import Keyring
from statebox.keys import Revocation
from statebox_cli.keys_view import ring_text
from tests.cli import keys_commands
from tests.cli.keys_commands import COMMAND, Keys, put
from tests.cli.keys_commands import clock as clock  # noqa: PLC0414 - fixtures
from tests.cli.keys_commands import keys as keys  # noqa: PLC0414
from tests.cli.keys_commands import path as path  # noqa: PLC0414
from tests.samples import NOW, Clock, key

RING = (
    key("dead", nbf=NOW - 90000, iat=NOW - 90000, revoked=Revocation(NOW - 7200, "in a gist")),
    key("gone", "HS256", nbf=NOW - 80000, iat=NOW - 80000, exp=NOW - 60),
    key("old", nbf=NOW - 70000, iat=NOW - 70000, exp=NOW + 1800),
    key("now", nbf=NOW - 1860, exp=NOW + 600 + 3660),
    key("a-name-of-thirty-two-characters1", nbf=NOW + 600, iat=NOW),
)


def test_list_shows_role_age_dates_and_fingerprint_of_each_key(keys: Keys, path: Path) -> None:
    ring = put(path, *RING)
    out = keys("list").out
    for one in ring:
        assert one.fingerprint in out
    for words in (
        "revoked    1 d", "revoked 2 h ago", "in a gist", "expired", "ended", "1 min ago",
        "verifying  19 h", "in 30 min", "active     -", "until 2026-09-21 14:23Z",
        "pending    0 s", "in 10 min", "from 2026-09-21 14:23Z", "without end", "HS256",
    ):  # fmt: skip
        assert words in out, words


def test_list_gives_one_json_object_without_a_secret(keys: Keys, path: Path) -> None:
    ring = put(path, *RING)
    ran = keys("list", "--json")
    said = ran.json
    assert list(said) == ["keyring", "at", "max_ttl", "keys", "error"]
    assert (said["at"], said["max_ttl"], said["error"]) == (NOW, 3600, None)
    assert [one["role"] for one in said["keys"]] == [
        "revoked", "expired", "verifying", "active", "pending",
    ]  # fmt: skip
    dead, _, _, active, pending = said["keys"]
    assert dead["revoked"] == {"revoked_at": NOW - 7200, "reason": "in a gist"}
    assert (dead["opens_until"], dead["seals_from"]) == (NOW - 7200, None)
    assert (active["seals_from"], active["seals_until"]) == (NOW - 1860, NOW + 600)
    assert (active["age"], active["opens_until"]) == (None, NOW + 4260)
    assert (pending["seals_until"], pending["opens_until"], pending["age"]) == (None, None, 0)
    for one in ring:
        assert one.to_jwk()["k"] not in ran.out


def test_list_judges_as_of_any_time(keys: Keys, path: Path) -> None:
    put(path, *RING)
    said = keys("list", "--json", "--at", str(NOW + 600)).json
    assert [one["role"] for one in said["keys"]][-2:] == ["verifying", "active"]


@pytest.mark.parametrize("kid", ["k7qf", "20261201-1f0c9a4e", "a-name-of-thirty-two-characters1"])
def test_no_line_is_wider_than_a_terminal(kid: str) -> None:
    for years in (0, 50, 30_000):
        nbf = NOW + years * 366 * 86400
        for ring in (
            Keyring([key(kid, nbf=nbf)]),
            Keyring([key("old", exp=nbf + 9000), key(kid, nbf=nbf, exp=nbf + 99_999)]),
            Keyring([key(kid, revoked=Revocation(NOW, "a reason as long as a story " * 5))]),
        ):
            assert max(map(len, ring_text(ring, NOW).splitlines())) <= 80


def test_a_key_seals_until_the_one_after_it_was_made_and_not_a_minute_less(
    keys: Keys, path: Path, clock: Clock
) -> None:
    """A key that was made in an emergency begins a minute earlier, for clocks that are behind."""
    put(path, key("old", nbf=NOW - 9000, iat=NOW - 9000))
    assert keys("rotate", "--activate-in", "0").code == 0
    kid = Keyring.load(path).active(NOW).kid
    clock.now += 5
    assert keys("revoke", kid, "--reason", "leaked", "--force", "--yes").code == 0
    clock.now += 5
    said = {one["kid"]: one for one in keys("list", "--json").json["keys"]}
    assert (said["old"]["seals_until"], said[kid]["seals_until"]) == (NOW, None)
    lines = keys("list").out.splitlines()
    assert next(line for line in lines if line.startswith("old")).split()[1:8] == [
        "verifying", "2", "h", "ended", "10", "s", "ago",
    ]  # fmt: skip


def timeline(ring: Keyring) -> dict[str, str]:
    """Read the bars of the drawing, by kid."""
    drawing = ring_text(ring, NOW).split("\n\n")[1].splitlines()
    return {line[:20].strip(): line[20:].ljust(58) for line in drawing}


def test_the_timeline_shows_who_seals_and_who_opens_around_now() -> None:
    bars = timeline(Keyring([key("old", exp=NOW + 600 + 3660), key("new", nbf=NOW + 600, iat=NOW)]))
    now = next(bar.index("▼") for bar in bars.values() if "▼" in bar)
    assert bars["old"][now] == "█"
    assert bars["new"][now] == "─"  # it opens already
    assert bars["new"][: now - 1].strip() == ""  # it was not there before
    handover = bars["new"].index("█")
    assert bars["old"][handover - 1] == "█"
    assert set(bars["old"][handover:].rstrip()) == {"─"}
    assert bars["new"].endswith("█")
    assert set(bars["new"][handover:]) == {"█"}


def test_a_moment_of_sealing_is_seen_in_a_long_timeline() -> None:
    bars = timeline(
        Keyring([
            key("brief", nbf=NOW + 60, exp=NOW + 90_000),
            key("new", nbf=NOW + 61, exp=NOW + 9_000_000),
        ])
    )  # fmt: skip
    assert bars["brief"].count("█") == 1


def test_a_key_that_ended_before_the_picture_begins_has_no_bar() -> None:
    bars = timeline(Keyring([key("gone", exp=NOW - 80_000), key("new", nbf=NOW - 900)]))
    assert bars["gone"].strip() == ""


def on_a_terminal(path: Path, **variables: str) -> str:
    """Run `keys list` with a terminal for its stdout, and return what that shows."""
    ours, theirs = pty.openpty()
    command = [*COMMAND, "list", "--keyring", str(path)]
    environment = keys_commands.environment(**{"TERM": "xterm", **variables})
    with subprocess.Popen(command, stdout=theirs, env=environment):
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # how Linux says that the other side of a terminal is closed
            pass
    os.close(ours)
    return shown.decode()


def test_colour_is_for_a_terminal_that_wants_it(keys: Keys, path: Path) -> None:
    put(path, *RING)
    assert "\x1b[" in on_a_terminal(path)
    assert "\x1b" not in on_a_terminal(path, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(path, TERM="dumb")
    assert "\x1b" not in keys("list").out


def test_a_terminal_without_these_letters_gets_others(path: Path) -> None:
    put(path, *RING)
    shown = on_a_terminal(path, PYTHONIOENCODING="ascii")
    assert "# seals  - opens" in shown
    assert shown.isascii()


def test_what_a_reason_holds_cannot_steer_a_terminal(keys: Keys, path: Path) -> None:
    put(path, key("dead", nbf=1, revoked=Revocation(NOW, "\x1b[2J\x07 boo")), key("new"))
    out = keys("list").out
    assert "\x1b" not in out
    assert "boo" in out


@pytest.mark.parametrize("variable", ["RING", "NONE"])
def test_any_source_is_listed(
    keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv("RING", json.dumps(Keyring(RING).to_jwks()))
    ran = keys("list", "--keyring", f"env:{variable}", "--json")
    assert ran.code == (0 if variable == "RING" else 8)
    put(tmp_path / "ring", *RING)
    assert keys("list", "--keyring", f"cmd:cat {tmp_path / 'ring'}").code == 0
