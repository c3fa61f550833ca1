"""How every command prints: the one place that decides it.

* Data goes to stdout, and nothing else does. Notes go to stderr, each after `statebox:`, what to
  do about it after `hint:`; no capital at the start, no full stop at the end (age's manners).
* With --json, stdout holds exactly one JSON object, whatever happens. It has an `error` member:
  null, or `{"code", "message", "hint"}`.
* The exit code follows from the error's code, by the table here.
* Colour only on a terminal, and not where NO_COLOR is set. Lines fit 80 columns.
* Text from a token or a log never reaches a terminal as it is: see `printable`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import click

from statebox.errors import StateboxError

WIDTH: Final = 80

UNEXPECTED: Final = 1
USAGE: Final = 2
EXIT_CODES: Final = {
    "usage": USAGE,
    "malformed": 3,
    "too_large": 3,
    "unsupported_state": 3,
    "authentication": 4,
    "unknown_key": 5,
    "revoked_key": 5,
    "expired_key": 5,
    "expired": 6,
    "issued_in_future": 6,
    "flow_expired": 6,
    "too_many_rounds": 6,
    "audience": 7,
    "principal": 7,
    "request": 7,
    "keyring": 8,
    "refused": 9,
    "replayed": 10,
}
"""The exit code of each error code (README, "For scripts"); every other error is 1."""

_EXTRAS: Final = {"mcp": "mcp,cli"}  # what brings a module that a command needs; else `all`

_BLANK: Final = f"{__name__}.blank"  # in the map that all contexts of one run share


class RefusedError(StateboxError):
    """The command did not act, because it would reject live tokens or was not confirmed."""

    code = "refused"
    default_hint = "Nothing was changed."


class InputError(click.UsageError):
    """What a person gave the command cannot be used; exit code 2.

    Args:
        message: What is wrong with it, without its content.
        hint: What to do about it.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Command(click.Command):
    """A command whose JSON has more members than `error`, even where it ends with one.

    Args:
        blank: Those members, as they are then.
    """

    def __init__(self, *args: Any, blank: Mapping[str, object], **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.blank = blank

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; from here on an error is one of this command."""
        ctx.meta[_BLANK] = self.blank
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click leaves it out of some
            raise


class Problem(NamedTuple):
    """An error as it is shown: in JSON with these names, on a terminal as two lines.

    Attributes:
        code: A stable name for the kind of failure.
        message: One line that says what is wrong.
        hint: One line that says what to do about it.
    """

    code: str
    message: str
    hint: str

    @property
    def exit_code(self) -> int:
        """The exit code that belongs to it."""
        return EXIT_CODES.get(self.code, UNEXPECTED)


def emit(data: Mapping[str, object], text: str, *, as_json: bool) -> None:
    """Print a command's result on stdout.

    Args:
        data: The result with stable keys; only what JSON has. An `error` member is added where
            there is none.
        text: The same for a person, without a line break at the end.
        as_json: Whether `--json` was given.
    """
    if as_json:
        text = json.dumps({**data, "error": data.get("error")}, indent=2)
    click.echo(text, color=True)  # `styled` has decided already; click strips nothing


def note(message: str, hint: str | None = None) -> None:
    """Write a remark on stderr: something the person should know besides the data.

    Args:
        message: One line.
        hint: What to do about it, if anything.
    """
    aside(f"statebox: {_said(message)}")
    if hint:
        aside(f"hint: {_said(hint)}")


def aside(text: str) -> None:
    """Write lines on stderr as they are; that nobody can be told is no reason to fail."""
    with suppress(OSError):
        click.echo(text, err=True)


def let_go() -> None:
    """Drop what could not be written: Python would try once more when it ends, and complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def report(error: Exception, ctx: click.Context | None, *, as_json: bool) -> int:
    """Write the error that a command ended with.

    Args:
        error: Any exception. The message of one that is neither ours nor click's is not shown,
            for it may hold what is secret.
        ctx: The context of the whole run, if it came so far.
        as_json: Whether `--json` was given: then the object goes to stdout as well.

    Returns:
        The exit code.
    """
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not as_json:
        error.show()  # the help, on stderr
        return USAGE
    problem = problem_of(error)
    told = False
    if as_json:
        blank: Mapping[str, object] = ctx.meta.get(_BLANK, {}) if ctx else {}
        told = _is_emitted({**blank, "error": problem._asdict()})
    if not told:
        note(problem.message, problem.hint)
    if problem.code == "unexpected" and os.environ.get("STATEBOX_DEBUG"):
        # Source lines and no values: neither the message nor the locals.
        aside("".join(traceback.format_tb(error.__traceback__)).rstrip("\n"))
    return problem.exit_code


def _is_emitted(data: Mapping[str, object]) -> bool:
    # It may be stdout itself that has failed, as on a disk that is full.
    try:
        emit(data, "", as_json=True)
    except BrokenPipeError:
        raise
    except OSError:
        return False
    return True


def problem_of(error: Exception) -> Problem:
    """Put any exception into the three words that are shown."""
    if isinstance(error, StateboxError):
        return Problem(error.code, error.message, error.hint)
    if isinstance(error, click.ClickException):
        no_command = isinstance(
            error, click.exceptions.NoArgsIsHelpError
        )  # its message is the help
        message = "Missing command." if no_command else error.format_message()
        if isinstance(error, click.NoSuchOption) and error.option_name == "--json":
            # Every command has it, and only a group of commands has not.
            message = "--json comes after the name of a command"
        return Problem("usage", message, _usage_hint(error))
    if isinstance(error, click.Abort):
        return Problem("aborted", "Aborted.", "Nothing was confirmed.")
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("statebox"):
        return Problem(
            "unexpected",
            f"{error.name} is not installed, and this command needs it",
            f"pip install 'statebox[{_EXTRAS.get(error.name or '', 'all')}]'",
        )
    if isinstance(error, OSError) and error.strerror:
        return Problem("unexpected", error.strerror, "The system refused; try again elsewhere.")
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119 - a name, not a path
    return Problem(
        "unexpected",
        f"unexpected {type(error).__name__} in {where}",
        "Set STATEBOX_DEBUG=1 to see where, and report it; no value is shown.",
    )


def _usage_hint(error: click.ClickException) -> str:
    if isinstance(error, InputError) and error.hint:
        return error.hint
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return f"Run `{ctx.command_path if ctx else 'statebox'} --help`."


def styled(text: str, **style: str | bool) -> str:
    """Colour a text if stdout is a terminal that wants colour (https://no-color.org).

    Args:
        text: The text.
        style: As `click.style` takes it: `fg="red"`, `bold=True`.

    Returns:
        The text, with or without escape codes.
    """
    plain = (
        not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    )
    return text if plain else click.style(text, **style)  # type: ignore[arg-type]


def printable(text: str) -> str:
    r"""Make foreign text safe to show: what could steer a terminal is written as `\u....`.

    Args:
        text: Anything out of a token, a log or a request.

    Returns:
        Text of printable characters only, without line breaks.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: `1 key`, `2 keys`, `1,000 keys`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lowered(sentence: str) -> str:
    """Begin a sentence in lower case, unless it begins with a name in capitals."""
    return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]


def _said(sentence: str) -> str:
    return lowered(printable(" ".join(sentence.split())).removesuffix("."))
