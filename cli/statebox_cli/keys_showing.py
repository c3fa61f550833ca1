"""`statebox keys list`: the keys of a ring, their roles, and what comes next."""

from __future__ import annotations

from typing import Final

import click

from statebox_cli import options, output
from statebox_cli.keys_store import store_of
from statebox_cli.keys_view import ring_text, ring_view
from statebox_cli.output import Command

BLANK: Final[dict[str, object]] = {"keyring": None, "at": None, "max_ttl": None, "keys": []}
"""The members of `--json`, as they are where there is nothing to say but an error."""


@click.command("list", cls=Command, blank=BLANK)
@options.keyring_option(required=True)
@options.at_option
@options.json_option
def list_keys(keyring: str, at: float | None, as_json: bool) -> None:
    """Show the keys of a ring, without their secrets.

    For each: its role, its age, when it seals, until when it opens, and a
    fingerprint that is the same on every replica that has the same secret.
    """
    now = int(options.moment(at))
    store = store_of(keyring)
    ring = store.read()
    data = {
        "keyring": store.name,
        "at": now,
        "max_ttl": ring.max_ttl,
        "keys": ring_view(ring, now),
    }
    output.emit(data, ring_text(ring, now), as_json=as_json)
