"""`statebox keys promote`, `revoke`, `retire` and `prune`: what takes something away."""

from __future__ import annotations

import click

from statebox.errors import ExpiredKeyError, RevokedKeyError
from statebox.keyring import Keyring
from statebox_cli import rotation
from statebox_cli.keys_options import BLANK, Write, writes
from statebox_cli.keys_writing import key_of, write
from statebox_cli.output import Command, RefusedError
from statebox_cli.times import both


@click.command(cls=Command, blank=BLANK)
@click.argument("kid")
@click.option("--now", "at_once", is_flag=True, required=True, help="At once: the only way.")
@writes
def promote(asked: Write, kid: str, at_once: bool) -> None:
    """Emergency: let a key of the ring seal at once.

    A pending one takes over before its time, a verifying one takes over again. A
    replica that has not read the key yet rejects its tokens until it does.
    """
    del at_once  # said, so that nobody takes this for a planned rotation

    def plan(ring: Keyring) -> Keyring:
        key = key_of(ring, kid)
        role = ring.role(key, asked.now)
        if role == "active":
            return ring
        if role in ("revoked", "expired"):
            refusal = RevokedKeyError if role == "revoked" else ExpiredKeyError
            raise refusal(
                f"{kid} is {role}, and does not come back",
                hint="Make a new key: statebox keys rotate --activate-in 0",
            )
        return rotation.promoted(ring, key, asked.now)

    write(asked, plan, question=f"Let {kid} seal from now on?")


@click.command(cls=Command, blank=BLANK)
@click.argument("kid")
@click.option("--reason", required=True, metavar="TEXT", help="Why, for those who come after.")
@writes
def revoke(asked: Write, kid: str, reason: str) -> None:
    """Emergency: let a key open nothing, because it leaked.

    Every token that it sealed is rejected. In the place of the active key a fresh
    one seals at once, in the same change.
    """

    def plan(ring: Keyring) -> Keyring:
        key = key_of(ring, kid)
        if key.revoked is not None:
            return ring
        return rotation.revoked(ring, key, asked.now, reason=reason)

    write(asked, plan, question=f"Revoke {kid}?")


@click.command(cls=Command, blank=BLANK)
@click.argument("kid")
@writes
def retire(asked: Write, kid: str) -> None:
    """End a key before its date, or give up one that is pending.

    A verifying key opens nothing from now on; refused while a token of it can be
    alive. A pending one is taken out, and the key before it seals on.
    """

    def plan(ring: Keyring) -> Keyring:
        key = key_of(ring, kid)
        role = ring.role(key, asked.now)
        if role == "active":
            raise RefusedError(
                f"{kid} seals now",
                hint="Rotate, and it ends by itself; revoke it only if it leaked.",
            )
        return ring if role in ("revoked", "expired") else rotation.retired(ring, key, asked.now)

    write(asked, plan, question=f"End {kid}?")


@click.command(cls=Command, blank=BLANK)
@writes
def prune(asked: Write) -> None:
    """Take out the keys that have ended.

    Expired ones a minute after their date; revoked ones once their last token
    would have expired, so that until then a token is refused as revoked.
    """

    def plan(ring: Keyring) -> Keyring:
        return rotation.pruned(ring, asked.now)

    def waiting(ring: Keyring) -> list[str]:
        """Say of each key that has ended and stays from when it can go."""
        ended = [key for key in ring if ring.role(key, asked.now) in ("revoked", "expired")]
        dates = [(key.kid, rotation.over_at(ring, key)) for key in ended]
        return [
            f"{kid} can be taken out from {both(date, asked.now)}"
            for kid, date in dates
            if date > asked.now
        ]

    write(asked, plan, question="Take them out?", besides=waiting)
