"""`statebox seal`: make a token by hand, to test a server or a client with."""

from __future__ import annotations

import json
from typing import Final

import click

from statebox import Statebox
from statebox.limits import DEFAULT_MAX_FLOW_AGE, DEFAULT_TTL
from statebox.state import State
from statebox_cli import inputs, options, output
from statebox_cli.output import Command, InputError

_HELP: Final = """Seal a state into a token, and print the token.

The state is JSON, from a file or from stdin (-, the default); it is never an argument, for those
are seen by others on this machine. Without --principal the token is bound to nobody, without --request to no request.

With --after the token goes on with the flow of another: the same deadline, the next round. That
token is opened first, so it must hold for the same audience, principal and request.

\b
Examples:
  echo '{"step": 1}' | statebox seal - --keyring ring.json --audience billing
  statebox seal --state state.json --principal alice --request request.json
  statebox seal --state next.json --principal alice --after token.txt
"""


@click.command(
    cls=Command, blank={"token": None}, help=_HELP, short_help=_HELP.partition(",")[0] + "."
)
@click.argument("stdin", required=False, metavar="[-]")
@options.keyring_option(required=True)
@options.token_options(
    required=True, at="Seal as if it were then, with the key and the dates of that time"
)
@click.option("--state", metavar="FILE", help="The state, as JSON.  [default: stdin]")
@click.option("--after", metavar="FILE", help="The token whose flow goes on; - is stdin.")
@options.server_option(
    "--ttl", options.duration, DEFAULT_TTL, "How long the token lives, where not 10m."
)
@options.server_option(
    "--max-flow-age",
    options.duration,
    DEFAULT_MAX_FLOW_AGE,
    "How long a new flow may take, where not 1h.",
)
@options.json_option
def seal(
    stdin: str | None,
    keyring: str,
    audience: str,
    state: str | None,
    principal: tuple[str, ...],
    request: str | None,
    after: str | None,
    ttl: int,
    max_flow_age: int,
    at: float | None,
    as_json: bool,
) -> None:
    """Seal a state into a token."""
    if stdin is not None:
        if stdin != "-" or state is not None:  # it is not shown: it may be the state itself
            raise InputError(
                "there is one state, and no argument but -",
                hint="Give --state FILE, or - for stdin.",
            )
        state = stdin
    if state is None:
        state = inputs.stdin_for("state", "Give --state FILE, or - for stdin.")
    if [state, request, after].count("-") > 1:
        raise InputError("stdin can be only one of state, request and token")
    now = options.moment(at)
    ring = inputs.load_keyring(keyring)
    try:
        box = Statebox(
            ring, audience=audience, ttl=ttl, max_flow_age=max_flow_age, clock=lambda: now
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    bound_to = inputs.principal_of(principal)
    came_with = inputs.request_of(inputs.load_call(request))
    turn = None
    if after is not None:
        turn = box.open(inputs.read_token(after), principal=bound_to, request=came_with)
    token = box.seal(_read_state(state), principal=bound_to, request=came_with, after=turn)
    output.emit({"token": token}, token, as_json=as_json)


def _read_state(path: str) -> State:
    try:
        state: State = json.loads(inputs.read_input(path))
    except (ValueError, RecursionError) as error:
        # `from None`: the decoder's error carries the whole document, and its message some of it.
        raise InputError(f"the state in {path} is not JSON{_place(error)}") from None
    return state


def _place(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f": line {error.lineno}, column {error.colno}"
    return ": it is not UTF-8" if isinstance(error, UnicodeError) else ""
