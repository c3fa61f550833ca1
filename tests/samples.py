"""What many tests start from: a clock that stands still, a ring, a box, a request.

Secrets are drawn from a seed, so that a failing test fails again with the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypedDict, Unpack

from statebox import Key, Keyring, Request, Statebox
from statebox.events import Hook
from statebox.keys import Revocation
from statebox.sources import Source
from tests.vectors.forge import Maker

NOW: Final = 1_790_000_000
DAY: Final = 86_400
AUDIENCE: Final = "billing"
ALGORITHMS: Final = ("A256GCM", "HS256")
REQUEST: Final = Request("tools/call", "refund", {"order": "ORD-7001", "cents": 1500})


@dataclass
class Clock:
    """A clock that shows what it was set to."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


def secret(name: str) -> bytes:
    """Draw the 32 bytes that belong to a name."""
    return random.Random(name).randbytes(32)


class Dates(TypedDict, total=False):
    """The members of a key besides its name, algorithm and secret."""

    nbf: int
    iat: int | None
    exp: int | None
    revoked: Revocation | None


class Options(TypedDict, total=False):
    """What a box can be given besides its ring and its clock."""

    audience: str
    ttl: float
    max_flow_age: float
    max_rounds: int
    leeway: float
    max_token_chars: int
    on_event: Hook | None


def key(kid: str = "key-1", alg: str = "A256GCM", **dates: Unpack[Dates]) -> Key:
    """Make a key whose secret follows from its kid and algorithm; active since yesterday."""
    dates = {"nbf": NOW - DAY, **dates}
    return Key(kid=kid, alg=alg, secret=secret(f"{kid} {alg}"), **dates)


def maker(kid: str = "key-1", alg: str = "A256GCM") -> Maker:
    """Make the forger who knows the secret of `key(kid, alg)`."""
    return Maker(kid, alg, secret(f"{kid} {alg}"))


def ring(alg: str = "A256GCM") -> Keyring:
    """Make a ring of one active key."""
    return Keyring([key(alg=alg)])


def box(
    keys: Source | Keyring | Iterable[Key] | str = "A256GCM",
    clock: Callable[[], float] | None = None,
    **options: Unpack[Options],
) -> Statebox:
    """Make a box over a ring, over keys, or over one key of an algorithm."""
    if isinstance(keys, str):
        keys = ring(keys)
    elif isinstance(keys, Iterable) and not isinstance(keys, Keyring):
        keys = Keyring(keys)
    options = {"audience": AUDIENCE, **options}
    return Statebox(keys, clock=clock or Clock(), **options)


def shown(value: object) -> str:
    """Name a value among the parameters of a test: alike in every process, so without addresses."""
    text = ascii(value)
    return type(value).__name__ if " at 0x" in text else text
