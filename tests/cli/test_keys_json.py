"""What `statebox keys ... --json` prints: one object, with the same members in every outcome."""

import json
from pathlib import Path

import click
import pytest

from statebox_cli.keys import keys as group
from statebox_cli.output import Command
from tests.cli.keys_commands import Keys, put
from tests.cli.keys_commands import clock as clock  # noqa: PLC0414 - fixtures
from tests.cli.keys_commands import keys as keys  # noqa: PLC0414
from tests.cli.keys_commands import path as path  # noqa: PLC0414
from tests.samples import NOW, key

IMPORTED = json.dumps(key("theirs", nbf=NOW - 2000).to_jwk())

COMMANDS: dict[str, tuple[str, ...]] = {
    "init": ("--force", "--yes"),
    "list": (),
    "rotate": (),
    "promote": ("next", "--now", "--yes"),
    "revoke": ("next", "--reason", "leaked", "--yes"),
    "retire": ("next", "--yes"),
    "prune": ("--yes",),
    "check": (),
    "diff": ("ring.json", "ring.json"),
    "export": (),
    "import": ("-",),
}
MISTAKES: dict[str, tuple[int, str]] = {
    "option": (2, "usage"),
    "value": (2, "usage"),
    "address": (8, "keyring"),
    "ring": (8, "keyring"),
}


@pytest.fixture
def ring(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ring on which every command of the table succeeds."""
    put(path, key("one", nbf=NOW - 1000, exp=NOW + 4260), key("next", nbf=NOW + 600))
    monkeypatch.chdir(path.parent)
    return path


def members(name: str) -> set[str]:
    command = group.get_command(click.Context(group), name)
    assert isinstance(command, Command), f"keys {name} has no members of its own"
    return {*command.blank, "error"}


def test_every_command_is_in_the_table() -> None:
    assert set(group.commands) == set(COMMANDS)


@pytest.mark.usefixtures("ring")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_success_has_the_members_of_the_command(name: str, keys: Keys) -> None:
    ran = keys(name, *COMMANDS[name], "--json", stdin=IMPORTED)
    assert (ran.code, ran.json.keys(), ran.json["error"]) == (0, members(name), None)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistake_has_the_same_members_as_a_success(
    name: str, mistake: str, ring: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"option": ["--bogus"], "value": ["--at=noon", "--activate-in=soon"]}.get(mistake, [])
    arguments = COMMANDS[name]
    if mistake == "address":
        monkeypatch.setenv("STATEBOX_KEYRING", "s3://bucket")
        arguments = tuple("s3://bucket" if word == "ring.json" else word for word in arguments)
    if mistake == "ring":
        ring.write_text("{")
    ran = keys(name, *arguments, "--json", *wrong, stdin=IMPORTED)
    if (name, mistake) == ("init", "ring"):
        assert ran.code == 0  # it is what puts a sound ring in the place of a broken one
        return
    assert (ran.code, ran.json["error"]["code"]) == MISTAKES[mistake]
    assert ran.json.keys() == members(name)
    assert ran.json["error"].keys() == {"code", "message", "hint"}
    assert ran.json.get("written") is None or ran.json["written"] is False


def test_a_mistake_before_any_command_has_only_the_error(keys: Keys) -> None:
    for arguments in (("--json",), ("bogus", "--json"), ("--bogus", "list", "--json")):
        ran = keys(*arguments)
        assert (ran.code, list(ran.json)) == (2, ["error"])


def test_an_option_without_its_value_is_a_mistake_of_its_command(keys: Keys) -> None:
    # click's own error does not say whose option it is.
    ran = keys("list", "--keyring")
    assert (ran.code, ran.err.splitlines()[1]) == (2, "hint: run `statebox keys list --help`")
