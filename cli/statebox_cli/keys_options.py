"""The options of the commands that change a ring, and what each of them prints with `--json`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import click

from statebox_cli import options

BLANK: Final[dict[str, object]] = {
    "keyring": None,
    "dry_run": None,
    "before": [],
    "after": [],
    "rejects": [],
    "written": None,
}
"""The members of `--json`, as they are where there is nothing to say but an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What a person asked for, apart from the change itself.

    Attributes:
        keyring: The address of the ring.
        now: The moment of the change, in seconds since 1970.
        dry_run: Whether nothing is to be written.
        as_json: Whether to print JSON.
        yes: Whether nothing is to be asked.
        force: Whether live tokens may be rejected.
    """

    keyring: str
    now: int
    dry_run: bool
    as_json: bool
    yes: bool
    force: bool


def writes(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every writing command; the command gets `asked: Write`."""

    @functools.wraps(function)
    def command(
        *, keyring: str, dry_run: bool, as_json: bool, yes: bool, force: bool, **others: object
    ) -> None:
        asked = Write(
            keyring=keyring,
            now=int(options.moment(None)),  # roles change at whole seconds
            dry_run=dry_run,
            as_json=as_json,
            yes=yes,
            force=force,
        )
        function(asked=asked, **others)

    for option in (
        options.json_option,
        click.option("--force", is_flag=True, help="Do it though live tokens are rejected."),
        click.option("--yes", is_flag=True, help="Do not ask; needed without a terminal."),
        click.option("--dry-run", is_flag=True, help="Show before and after, and write nothing."),
        options.keyring_option(required=True),
    ):
        command = option(command)
    return command
