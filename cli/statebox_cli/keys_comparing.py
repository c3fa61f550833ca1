"""`statebox keys diff`: what the rings of several replicas do not have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import click

from statebox.keyring import Keyring
from statebox.keys import Key
from statebox_cli import options, output
from statebox_cli.keys_store import store_of
from statebox_cli.output import Command, InputError, Problem


class Difference(NamedTuple):
    """Something that is not the same in all rings.

    Attributes:
        kind: `missing`, `secret`, `alg`, `dates`, `revoked`, `kid` or `max_ttl`.
        kid: The key; None: it is about the rings as such.
        rings: The names of the rings that it is about.
        detail: In words.
    """

    kind: str
    kid: str | None
    rings: tuple[str, ...]
    detail: str


@click.command(cls=Command, blank={"rings": [], "differences": []})
@click.argument("rings", nargs=-1, required=True, metavar="RING RING...")
@options.at_option
@options.json_option
def diff(rings: tuple[str, ...], at: float | None, as_json: bool) -> None:
    """Compare the rings of replicas by kid and fingerprint.

    Each RING is whatever --keyring takes. Says who lacks which key, and where one
    kid stands for two secrets: tokens are rejected there. Exit code 8 if anything
    differs.
    """
    if len(rings) < 2:
        raise InputError("there is nothing to compare it with", hint="Name two rings or more.")
    now = int(options.moment(at))
    loaded: dict[str, Keyring] = {}
    for address in rings:
        store = store_of(address)
        name = store.name if store.name not in loaded else f"{store.name} ({len(loaded) + 1})"
        loaded[name] = store.read()
    found = list(differences(loaded))
    problem = None
    if found:
        hint = "Give every replica one and the same ring."
        problem = Problem("keyring", f"the rings differ: {found[0].detail}", hint)
    data = {
        "rings": [
            {
                "keyring": name,
                "max_ttl": ring.max_ttl,
                "keys": [_short(ring, key, now) for key in ring],
            }
            for name, ring in loaded.items()
        ],
        "differences": [difference._asdict() for difference in found],
        "error": None if problem is None else problem._asdict(),
    }
    output.emit(data, "\n".join(_lines(loaded, found, now)), as_json=as_json)
    if problem is not None:
        output.note(problem.message, problem.hint)
        raise click.exceptions.Exit(problem.exit_code)


def differences(rings: Mapping[str, Keyring]) -> Iterator[Difference]:
    """Find what differs between rings, by kid and fingerprint.

    Args:
        rings: The rings by their names.

    Yields:
        Each difference; what rejects tokens comes first for each key.
    """
    names = tuple(rings)
    kids = dict.fromkeys(key.kid for ring in rings.values() for key in ring)
    for kid in kids:
        having = {name: key for name, ring in rings.items() if (key := ring.get(kid))}
        lacking = tuple(name for name in names if name not in having)
        if lacking:
            yield Difference("missing", kid, lacking, f"{', '.join(lacking)} lacks {kid}")
        yield from _unlike(kid, having)
    yield from _renamed(rings)
    if len({ring.max_ttl for ring in rings.values()}) > 1:
        said = ", ".join(f"{ring.max_ttl} s in {name}" for name, ring in rings.items())
        yield Difference("max_ttl", None, names, f"max_ttl is {said}")


def _unlike(kid: str, having: Mapping[str, Key]) -> Iterator[Difference]:
    names = tuple(having)
    keys = list(having.values())
    for kind, values, detail in (
        ("secret", {key.fingerprint for key in keys}, f"{kid} stands for more than one secret"),
        ("alg", {key.alg for key in keys}, f"{kid} is for more than one algorithm"),
        ("revoked", {key.revoked is None for key in keys}, f"{kid} is not revoked everywhere"),
        ("dates", {(key.nbf, key.exp) for key in keys}, f"{kid} has not the same dates everywhere"),
    ):
        if len(values) > 1:
            yield Difference(kind, kid, names, detail)


def _renamed(rings: Mapping[str, Keyring]) -> Iterator[Difference]:
    names: dict[str, dict[str, str]] = {}
    for name, ring in rings.items():
        for key in ring:
            names.setdefault(key.fingerprint, {})[key.kid] = name
    for kids in names.values():
        if len(kids) > 1:
            detail = f"one secret is called {' and '.join(kids)}"
            yield Difference("kid", None, tuple(kids.values()), detail)


def _short(ring: Keyring, key: Key, now: float) -> dict[str, str]:
    return {"kid": key.kid, "role": ring.role(key, now), "fingerprint": key.fingerprint}


def _lines(rings: Mapping[str, Keyring], found: list[Difference], now: float) -> Iterator[str]:
    kids = dict.fromkeys(key.kid for ring in rings.values() for key in ring)
    for kid in kids:
        yield output.styled(kid, bold=True)
        for name, ring in rings.items():
            key = ring.get(kid)
            what = f"{ring.role(key, now):9}  {key.fingerprint}" if key else f"{'-':9}  lacks it"
            yield f"  {what:29}{output.printable(name)}"
    yield ""
    yield from (output.styled(difference.detail, fg="red") for difference in found)
    if not found:
        yield output.styled("the rings are the same", fg="green")
