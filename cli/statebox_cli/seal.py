"""`statebox seal`: make a token by hand, to test a server or a client with."""

from __future__ import annotations

import json
from typing import Final

import click

from statebox import Statebox
from statebox.cbor import State
from statebox.limits import DEFAULT_MAX_FLOW_AGE, DEFAULT_TTL
from statebox_cli import options, output
from statebox_cli.output import Command, InputError

_HELP: Final = """Seal a state into a token, and print the token.

The state is JSON, from a file or from stdin; it is never an argument, for those are seen by others
on this machine. Without --principal the token is bound to nobody, without --request to no request.

With --after the token goes on with the flow of another: the same deadline, the next round. That
token is opened first, so it must hold for the same audience, principal and request.

\b
Examples:
  echo '{"step": 1}' | statebox seal --keyring ring.json --audience billing
  statebox seal --state state.json --principal alice --request request.json
  statebox seal --state next.json --principal alice --after token.txt
"""


@click.command(cls=Command, blank={"token": None}, help=_HELP, short_help=_HELP.partition(",")[0])
@options.keyring_option(required=True)
@options.audience_option(required=True)
@click.option("--state", default="-", metavar="FILE", help="The state, as JSON.  [default: stdin]")
@options.principal_option
@options.request_option
@click.option("--after", metavar="FILE", help="The token whose flow goes on; - is stdin.")
@click.option(
    "--ttl",
    type=options.duration,
    default=DEFAULT_TTL,
    metavar="DURATION",
    envvar="STATEBOX_TTL",
    show_envvar=True,
    help="How long the token lives, where not 10m.",
)
@click.option(
    "--max-flow-age",
    type=options.duration,
    default=DEFAULT_MAX_FLOW_AGE,
    metavar="DURATION",
    envvar="STATEBOX_MAX_FLOW_AGE",
    show_envvar=True,
    help="How long a new flow may take, where not 1h.",
)
@options.at_option
@options.json_option
def seal(
    keyring: str,
    audience: str,
    state: str,
    principal: tuple[str, ...],
    request: str | None,
    after: str | None,
    ttl: int,
    max_flow_age: int,
    at: float | None,
    as_json: bool,
) -> None:
    """Seal a state into a token."""
    if [state, request, after].count("-") > 1:
        raise InputError("stdin can be only one of state, request and token")
    now = options.moment(at)
    ring = options.load_keyring(keyring)
    try:
        box = Statebox(
            ring, audience=audience, ttl=ttl, max_flow_age=max_flow_age, clock=lambda: now
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    bound_to = options.principal_of(principal)
    came_with = options.request_of(options.load_call(request))
    turn = None
    if after is not None:
        turn = box.open(options.read_token(after), principal=bound_to, request=came_with)
    token = box.seal(_read_state(state), principal=bound_to, request=came_with, after=turn)
    output.emit({"token": token}, token, as_json=as_json)


def _read_state(path: str) -> State:
    try:
        state: State = json.loads(options.read_input(path))
    except (ValueError, RecursionError):
        # `from None`: the decoder's error carries the whole document.
        raise InputError(f"the state in {path} is not JSON") from None
    return state
