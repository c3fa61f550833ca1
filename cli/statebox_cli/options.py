"""The options that several commands share, and the types of their values.

Every option has a STATEBOX_... variable where that is safe. A secret or a state is never an
option's value: it comes from a file or from stdin.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from statebox import Keyring, Request
from statebox.claims import TIME_LIMIT
from statebox.sources import open_source
from statebox_cli.find import Call, call_of
from statebox_cli.output import InputError, note

MAX_INPUT_BYTES: Final = 64 * 1024 * 1024

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


_AT_HELP: Final = "Judge as of then: ISO 8601 or seconds since 1970.  [default: now]"


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


def principal_option(function: _F) -> _F:
    """Add `--principal PART`, repeatable; the command gets `principal: tuple[str, ...]`."""
    return click.option(
        "--principal",
        multiple=True,
        metavar="PART",
        help="Who presents the token; repeat it for each part, as issuer, subject, client.",
    )(function)


def request_option(function: _F) -> _F:
    """Add `--request FILE`; the command gets `request: str | None`, for `load_call`."""
    return click.option(
        "--request",
        metavar="FILE",
        help="The JSON-RPC request it belongs to, as JSON; - is stdin.",
    )(function)


def at_option(function: _F) -> _F:
    """Add `--at TIME`; the command gets `at: float | None`, for `moment`."""
    return click.option("--at", type=point_in_time, metavar="TIME", help=_AT_HELP)(function)


def moment(at: float | None) -> float:
    """Give the time to judge by, in seconds since 1970: *at*, or now."""
    return time.time() if at is None else at


def load_keyring(source: str) -> Keyring:
    """Read a ring once from where `--keyring` says.

    Args:
        source: A path, or `file: env: cmd: redis:` and a place.

    Returns:
        The ring.

    Raises:
        KeyringError: It cannot be read, or is no keyring.
    """
    return open_source(source).current()


def read_input(path: str) -> bytes:
    """Read a file that a person named, or stdin.

    Args:
        path: The file; `-` is stdin.

    Returns:
        The whole content.

    Raises:
        InputError: It cannot be read, or is longer than 64 MiB.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_INPUT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise InputError(f"{path} cannot be read: {reason}") from None
    if len(data) > MAX_INPUT_BYTES:
        raise InputError(f"{path} is longer than 64 MiB", hint="`statebox scan` reads long files.")
    return data


def require_plain(path: str, start: bytes, command: str) -> None:
    """Refuse a compressed file, in which nothing would be found.

    Args:
        path: Its name, for the message.
        start: Its first bytes.
        command: The command that it was given to.

    Raises:
        InputError: It begins as gzip does (RFC 1952, section 2.3.1).
    """
    if start.startswith(b"\x1f\x8b\x08"):
        name = "FILE" if path == "-" else path
        raise InputError(
            f"{'stdin' if path == '-' else path} looks like gzip",
            hint=f"Run `zcat {name} | statebox {command} -`.",
        )


def read_token(path: str) -> str:
    """Read a token from a file or from stdin; trim the blanks around it, and say so.

    Args:
        path: The file; `-` is stdin.

    Returns:
        The token, of any content.

    Raises:
        InputError: It cannot be read.
    """
    text = read_input(path).decode("utf-8", "replace")
    if text.strip() != text:
        note("the token had blanks around it, which were trimmed")
    return text.strip()


def load_call(path: str | None) -> Call | None:
    """Read the JSON-RPC request of `--request FILE`.

    Args:
        path: The file; `-` is stdin; None: no request.

    Returns:
        The request, or None.

    Raises:
        InputError: It cannot be read, or is no JSON-RPC request that a token can be bound to.
    """
    if path is None:
        return None
    try:
        call = call_of(json.loads(read_input(path)))
        if call is None:
            raise ValueError
        request_of(call)
    except (ValueError, TypeError, RecursionError):
        # `from None`: the decoder's error carries the whole document.
        raise InputError(
            f"{path} is not a JSON-RPC request",
            hint='Give the whole message: {"method": "tools/call", "params": {...}}.',
        ) from None
    return call


def request_of(call: Call | None) -> Request | None:
    """Give the request that tokens are bound to."""
    return None if call is None else Request.from_params(call.method, call.params)


def principal_of(parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """Give the principal of `--principal` options: their values, or None where there is none.

    Raises:
        InputError: All parts are empty.
    """
    if parts and not any(parts):
        raise InputError("the principal is empty", hint="Leave --principal out to bind to nobody.")
    return parts or None
