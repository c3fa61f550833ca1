"""The options that several commands share, and the types of their values.

Every option has a STATEBOX_... variable where that is safe. A secret or a state is never an
option's value: it comes from a file or from stdin.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

import click

from statebox.claims import TIME_LIMIT

_F = TypeVar("_F", bound=Callable[..., Any])

_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd]?)", re.ASCII)
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST: Final = 36500 * 86400  # no time that is reckoned with it is beyond what a key can carry


def duration(value: str | int) -> int:
    """Read a length of time: `90s`, `10m`, `2h`, `7d`; a bare number is seconds.

    Returns:
        Seconds.

    Raises:
        click.BadParameter: It is not of this form, or longer than 100 years.
    """
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise click.BadParameter("that is not a duration; write it as 90s, 10m, 2h or 7d")
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds > _LONGEST:
        raise click.BadParameter("that is longer than 100 years")
    return seconds


def point_in_time(value: str | float) -> float:
    """Read a time: ISO 8601 (UTC where it names no zone) or seconds since 1970.

    Returns:
        Seconds since 1970.

    Raises:
        click.BadParameter: It is not of this form, or beyond what a token can carry.
    """
    try:
        seconds = _seconds(str(value).strip())
    except (ValueError, OverflowError):
        raise click.BadParameter(
            "that is not a time; write 2026-12-01T03:14:00Z or seconds since 1970"
        ) from None
    if not 0 <= seconds < TIME_LIMIT:
        raise click.BadParameter("that is before 1970 or too far ahead")
    return seconds


def _seconds(text: str) -> float:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII):
        return float(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


_AT_HELP: Final = "Judge as of then"
_AT_FORMS: Final = "ISO 8601 or seconds since 1970.  [default: now]"


def json_option(function: _F) -> _F:
    """Add `--json`; the command gets `as_json`, and `output.emit` does the rest."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(function)


def keyring_option(*, required: bool) -> Callable[[_F], _F]:
    """Add `--keyring SOURCE`, once; the command gets `keyring: str` (or None)."""
    return click.option(
        "--keyring",
        envvar="STATEBOX_KEYRING",
        required=required,
        metavar="SOURCE",
        show_envvar=True,
        help="The keyring: a file, or file: env: cmd: redis:.",
    )


def keyrings_option(function: _F) -> _F:
    """Add `--keyring SOURCE`, repeatable; the command gets `keyrings: tuple[str, ...]`."""

    def from_environment(
        _ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]
    ) -> tuple[str, ...]:
        # By hand: click would split the variable at blanks, and a source may hold some.
        variable = os.environ.get("STATEBOX_KEYRING")
        return value or ((variable,) if variable else ())

    return click.option(
        "--keyring",
        "keyrings",
        multiple=True,
        metavar="SOURCE",
        callback=from_environment,
        help="The keyring: a file, or file: env: cmd: redis:. Given twice, the second is "
        "compared with the first.  [env var: STATEBOX_KEYRING]",
    )(function)


def audience_option(*, required: bool) -> Callable[[_F], _F]:
    """Add `--audience NAME`; the command gets `audience: str` (or None)."""
    return click.option(
        "--audience",
        envvar="STATEBOX_AUDIENCE",
        required=required,
        metavar="NAME",
        show_envvar=True,
        help="The service the token is for.",
    )


def at_option(function: _F, explained: str = _AT_HELP) -> _F:
    """Add `--at TIME`; the command gets `at: float | None`, for `moment`."""
    help_text = f"{explained}: {_AT_FORMS}"
    return click.option("--at", type=point_in_time, metavar="TIME", help=help_text)(function)


def token_options(*, required: bool, at: str = _AT_HELP) -> Callable[[_F], _F]:
    """Add what a token is sealed or judged by: `--audience --principal --request --at`.

    The command gets `audience: str` (or None), `principal: tuple[str, ...]`, `request: str | None`
    for `inputs.load_call`, and `at: float | None` for `moment`.

    Args:
        required: Whether there has to be an audience.
        at: What `--at` does, for its help.
    """

    def add(function: _F) -> _F:
        for option in (
            partial(at_option, explained=at),
            click.option(
                "--request",
                metavar="FILE",
                help="The JSON-RPC request it belongs to, as JSON; - is stdin.",
            ),
            click.option(
                "--principal",
                multiple=True,
                metavar="PART",
                help="Who presents the token; repeat it for each part, as issuer, subject, client.",
            ),
            audience_option(required=required),
        ):
            function = option(function)
        return function

    return add


def server_option(
    name: str, kind: Callable[[str | int], int] | click.IntRange, default: int, explained: str
) -> Callable[[_F], _F]:
    """Add a setting that a server has as well, as `--ttl`; its variable is STATEBOX_TTL.

    Args:
        name: The option.
        kind: The type of its value.
        default: The library's own default.
        explained: The help, which names that default.
    """
    return click.option(
        name,
        type=kind,
        default=default,
        metavar="DURATION" if kind is duration else "N",
        envvar=f"STATEBOX_{name.removeprefix('--').replace('-', '_').upper()}",
        show_envvar=True,
        help=explained,
    )


def moment(at: float | None) -> float:
    """Give the time to judge by, in seconds since 1970: *at*, or now."""
    return time.time() if at is None else at
