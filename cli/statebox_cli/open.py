"""`statebox open`: open a token as a server would, and print its state."""

from __future__ import annotations

from typing import Any, Final

import click

from statebox import Continuation, Statebox
from statebox_cli import inputs, options, output
from statebox_cli.cbor_text import diagnostic, is_json, state_text
from statebox_cli.output import Command, InputError

_HELP: Final = """Open a token as a server would, and print its state.

The token comes from a file or from stdin. What is given must be what it was sealed for: without
--principal it is presented by nobody, without --request with no request. The state is JSON, or CBOR
diagnostic notation where JSON cannot say it; --json adds the flow, the round and the times.

`statebox inspect` says more of a token that does not open.

\b
Examples:
  pbpaste | statebox open --keyring ring.json --audience billing --json
  statebox open token.txt --principal alice --request request.json
"""

BLANK: Final[dict[str, object]] = {
    "state": None,
    "state_diagnostic": None,
    "audience": None,
    "key_id": None,
    "token_id": None,
    "flow": None,
    "round": None,
    "issued_at": None,
    "expires_at": None,
    "deadline": None,
}
"""The members of `--json`, as they are where there is nothing to say but an error."""


@click.command(cls=Command, blank=BLANK, help=_HELP, short_help=_HELP.partition(",")[0] + ".")
@click.argument("token", required=False, metavar="[FILE | -]")
@options.keyring_option(required=True)
@options.token_options(required=True)
@options.json_option
def open_token(
    token: str | None,
    keyring: str,
    audience: str,
    principal: tuple[str, ...],
    request: str | None,
    at: float | None,
    as_json: bool,
) -> None:
    """Open a token as a server would."""
    if token is None:
        token = inputs.stdin_for("token", "Give a file, or - for stdin.")
    if [token, request].count("-") > 1:
        raise InputError("stdin can be only one of token and request")
    now = options.moment(at)
    ring = inputs.load_keyring(keyring)
    try:
        box = Statebox(ring, audience=audience, clock=lambda: now)
    except ValueError as error:
        raise InputError(str(error)) from None
    turn = box.open(
        inputs.read_token(token),
        principal=inputs.principal_of(principal),
        request=inputs.request_of(inputs.load_call(request)),
    )
    output.emit(_described(turn), state_text(turn.state), as_json=as_json)


def _described(turn: Continuation) -> dict[str, Any]:
    state = turn.state
    sayable = is_json(state)
    return {
        "state": state if sayable else None,
        "state_diagnostic": None if sayable else diagnostic(state),
        "audience": turn.audience,
        "key_id": turn.key_id,
        "token_id": turn.token_id,
        "flow": turn.flow,
        "round": turn.round,
        "issued_at": turn.issued_at,
        "expires_at": turn.expires_at,
        "deadline": turn.deadline,
    }
