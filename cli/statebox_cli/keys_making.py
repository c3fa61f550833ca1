"""`statebox keys init` and `rotate`: the first key of a ring, and each one after it."""

from __future__ import annotations

from typing import Final

import click

from statebox.errors import KeyringError
from statebox.keyring import DEFAULT_MAX_TTL, Keyring
from statebox.keys import A256GCM, ALGORITHMS, HS256, Key
from statebox_cli import options, output
from statebox_cli.keys_lifetimes import LEEWAY
from statebox_cli.keys_options import BLANK, Write, writes
from statebox_cli.keys_writing import create, write
from statebox_cli.output import Command
from statebox_cli.rotation import rotated

_SOON: Final = 60  # seconds in which every replica reads its source again, also a slow one

alg_option = click.option(
    "--alg",
    type=click.Choice(ALGORITHMS),
    help="A256GCM: encrypted. HS256: signed, and readable by the client.",
)


def longest_life(value: str | int) -> int:
    """Read the max_ttl of a ring.

    Returns:
        Seconds.

    Raises:
        click.BadParameter: It is no duration, or none that a ring can have.
    """
    seconds = options.duration(value)
    try:
        Keyring.generate(max_ttl=seconds)
    except KeyringError:
        raise click.BadParameter("a token lives between 1 s and a year") from None
    return seconds


@click.command(cls=Command, blank=BLANK)
@alg_option
@click.option(
    "--max-ttl",
    type=longest_life,
    default=DEFAULT_MAX_TTL,
    metavar="DURATION",
    help="The longest life of a token; a rotation keeps an old key for that long.  [1h]",
)
@writes
def init(asked: Write, alg: str | None, max_ttl: int) -> None:
    """Make a keyring of one fresh key that is active at once.

    One that is there already is not overwritten without --force.
    """
    # Begun a minute ago, for replicas whose clock is behind.
    key = Key.generate(alg or A256GCM, now=asked.now, nbf=asked.now - LEEWAY)
    create(asked, Keyring([key], max_ttl=max_ttl))


@click.command(cls=Command, blank=BLANK)
@click.option(
    "--activate-in",
    type=options.duration,
    default=600,
    metavar="DURATION",
    help="How long every replica has to read the ring before the new key seals.  [10m]",
)
@alg_option
@writes
def rotate(asked: Write, activate_in: int, alg: str | None) -> None:
    """Add a key that takes over on all replicas at once.

    It seals from --activate-in on. The key before it opens for as long as a token of its own can be alive, and
    expires then. No token is rejected, and nothing else is to be deployed.
    """
    write(asked, lambda ring: rotated(ring, asked.now, activate_in=activate_in, alg=alg))
    if activate_in < _SOON:
        slow = f" that reads the ring less often than every {activate_in} s" if activate_in else ""
        output.note(
            f"a replica{slow} rejects tokens of the new key until it has read the ring",
            hint="A file is looked at every second, a Redis every 5 s, a command every 60 s.",
        )
    if alg == HS256:
        output.note("tokens of an HS256 key can be read by the client")
