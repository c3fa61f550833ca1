"""`statebox keys`: the group of what makes, changes, shows and compares keyrings."""

from __future__ import annotations

import click

from statebox_cli.keys_checking import check
from statebox_cli.keys_comparing import diff
from statebox_cli.keys_ending import promote, prune, retire, revoke
from statebox_cli.keys_exchange import export, import_keys
from statebox_cli.keys_making import init, rotate
from statebox_cli.keys_showing import list_keys

_HELP = """Make, rotate, check and compare keyrings.

\b
A keyring is a JWK Set. Which of its keys seals follows from their dates and
the clock, on every replica alike; a rotation is one change of one file.
  pending           begins to seal later; opens already
  active            seals and opens
  verifying         has sealed; opens until its date
  expired, revoked  opens nothing

\b
The keyring is --keyring or STATEBOX_KEYRING:
  keyring.json, file:PATH       a file; written in one step, under a lock
  redis://host:6379/0?key=NAME  a Redis; written under its optimistic lock
  env:NAME, cmd:COMMAND...      what a writing command makes of it goes to
                                stdout, for your secret manager
"""


@click.group(
    help=_HELP,
    no_args_is_help=False,
    invoke_without_command=True,
    short_help="Make, rotate, check and compare keyrings.",
)
@click.pass_context
def keys(ctx: click.Context) -> None:
    """Make, rotate, check and compare keyrings."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _command in (
    init,
    list_keys,
    rotate,
    promote,
    revoke,
    retire,
    prune,
    check,
    diff,
    export,
    import_keys,
):
    keys.add_command(_command)
