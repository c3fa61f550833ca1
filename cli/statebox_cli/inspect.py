"""`statebox inspect`: what a token is, and why a server rejected it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from statebox import MalformedTokenError, Request
from statebox.claims import MAX_ROUND
from statebox.limits import DEFAULT_LEEWAY, DEFAULT_MAX_ROUNDS
from statebox.sealer import DEFAULT_MAX_TOKEN_CHARS
from statebox_cli import inputs, options, output, reading
from statebox_cli.find import Found, find
from statebox_cli.judging import Context
from statebox_cli.mend import TRIMMED
from statebox_cli.output import Command, InputError, counted
from statebox_cli.report import examine

_PATH: Final = re.compile(r"[^{}\"/]*/[^{}\"]*|[^{}\"]*\.(?:json|har|txt|log)")
_WORD: Final = re.compile(r"[A-Za-z0-9_-]{1,20}")  # the shortest token that is known is longer

_HELP: Final = """Say what a token is and, with a keyring, why a server rejected it.

TOKEN is a token; or a file, or - for stdin, that holds one: bare, quoted or wrapped, in a JSON-RPC
message, an HTTP message, an SSE frame, a log line or a HAR file.

Without a keyring everything is UNVERIFIED. With one, every check of the format is made, against
what you know: the audience, the principal, the request, the time. A request that the token stands
in is taken for the one it came with. Given twice, --keyring compares the first ring, the server's,
with the second.

The state is shown only with --show-state. The exit code is that of the error: see `statebox -h`.

\b
Examples:
  pbpaste | statebox inspect -
  statebox inspect request.json --keyring keyring.json --audience billing
  statebox inspect traffic.har --pick 2 --keyring env:RING --at 2026-12-01
  grep 7f3a a.log | statebox inspect - --keyring a.json --keyring b.json
  statebox inspect old.txt --sdk-key-file sdk.key --principal alice
"""


BLANK: Final[dict[str, object]] = {
    "token": None,
    "key": None,
    "verified": None,
    "claims": None,
    "checks": [],
}
"""The members of `--json`, as they are where there is nothing to say but an error."""


@click.command(cls=Command, blank=BLANK, help=_HELP, short_help=_HELP.partition(".")[0] + ".")
@click.argument("source", required=False, metavar="[TOKEN | FILE | -]")
@options.keyrings_option
@options.token_options(required=False)
@click.option("--no-principal", is_flag=True, help="Nobody known presents it.")
@click.option("--no-request", is_flag=True, help="It came with no request.")
@options.server_option("--leeway", options.duration, DEFAULT_LEEWAY, "The server's, where not 60s.")
@options.server_option(
    "--max-rounds",
    click.IntRange(1, MAX_ROUND),
    DEFAULT_MAX_ROUNDS,
    "The server's, where not 32.",
)
@options.server_option(
    "--max-token-chars",
    click.IntRange(256),
    DEFAULT_MAX_TOKEN_CHARS,
    "The server's, where not 65536.",
)
@click.option(
    "--sdk-key-file",
    "key_files",
    multiple=True,
    metavar="FILE",
    help="The key of a server of another SDK: text, hex or base64. Repeatable.",
)
@click.option("--pick", type=click.IntRange(1), metavar="N", help="Of several, show the Nth.")
@click.option("--show-state", is_flag=True, help="Show the state as well.")
@options.json_option
@click.pass_context
def inspect(
    ctx: click.Context,
    source: str | None,
    keyrings: tuple[str, ...],
    audience: str | None,
    principal: tuple[str, ...],
    no_principal: bool,
    request: str | None,
    no_request: bool,
    at: float | None,
    leeway: int,
    max_rounds: int,
    max_token_chars: int,
    key_files: tuple[str, ...],
    pick: int | None,
    show_state: bool,
    as_json: bool,
) -> None:
    """Say what a token is, and why it was rejected."""
    if (principal and no_principal) or (request and no_request):
        raise InputError("an option and its opposite contradict each other")
    rings = [inputs.load_keyring(source) for source in keyrings]
    sdk_keys = [inputs.read_input(path) for path in key_files]
    context = Context(
        now=options.moment(at),
        audience=audience,
        principal=inputs.principal_of(principal),
        principal_known=bool(principal) or no_principal,
        call=inputs.load_call(request),
        call_known=request is not None or no_request,
        leeway=leeway,
        max_rounds=max_rounds,
        max_token_chars=max_token_chars,
    )
    founds = _picked(find(_read(source)), pick)
    reports = [
        (examine(found.text, rings, sdk_keys, _with(context, found)), found) for found in founds
    ]
    for _, found in reports:
        _note(found, several=len(reports) > 1)
    if source and source == founds[0].text and _WORD.fullmatch(source):
        output.note("there is no file of this name, so it was taken for the token itself")
    data = [report.as_json(show_state=show_state) for report, _ in reports]
    problem = next((report.problem for report, _ in reports if report.problem), None)
    if len(reports) == 1:
        text = reading.of_one(*reports[0], context.now, show_state=show_state)
        output.emit(data[0], text, as_json=as_json)
    else:
        error = None if problem is None else problem._asdict()
        output.emit({"tokens": data, "error": error}, reading.of_many(reports), as_json=as_json)
    if problem is not None:
        ctx.exit(problem.exit_code)


def _read(source: str | None) -> bytes:
    if source is None:
        source = inputs.stdin_for("token", "Give a token, a file, or - for stdin.")
    if source == "-":
        return _read_plain(source)
    if not source.strip():
        raise InputError(
            "the token is empty", hint="Look whether the variable that it came from is set."
        )
    try:
        is_file = Path(source).exists()
    except (OSError, ValueError):  # too long for a name, or no name at all
        is_file = False
    if is_file:
        return _read_plain(source)
    if _PATH.fullmatch(source):
        raise InputError(f"there is no file {source}")
    return source.encode("utf-8", "surrogateescape")


def _read_plain(path: str) -> bytes:
    data = inputs.read_input(path)
    inputs.require_plain(path, data, "inspect")
    return data


def _picked(founds: list[Found], pick: int | None) -> list[Found]:
    if not founds:
        raise MalformedTokenError(
            "no requestState was found in the input",
            hint="Give the token itself, or the message, the capture or the log that holds it.",
        )
    if pick is None:
        return founds
    if pick > len(founds):
        raise InputError(f"of {counted(len(founds), 'requestState')} there is no number {pick}")
    return [founds[pick - 1]]


def _with(context: Context, found: Found) -> Context:
    # The request that a token stands in is the one it came with, unless the person knows better.
    if context.call_known or found.call is None:
        return context
    try:
        Request.from_params(found.call.method, found.call.params)
    except (TypeError, ValueError):
        output.note("the request it stands in has arguments that no token is bound to")
        return context
    return context._replace(call=found.call, call_known=True)


def _note(found: Found, *, several: bool) -> None:
    what = f"the token in {found.where}" if several else "the token"
    if TRIMMED in found.damage:
        output.note(f"{what} had blanks around it, which were trimmed")
    damage = [each for each in found.damage if each != TRIMMED]
    if damage:
        output.note(f"{what} was damaged: {', '.join(damage)}", "a server refuses it like that")
