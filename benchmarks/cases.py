"""What is sealed in every benchmark: states, bindings, rings and boxes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final, TypeVar

from statebox import Key, Keyring, Request, Statebox
from statebox.keys import A256GCM, HS256
from statebox.state import State

Person = TypeVar("Person")
Token = TypeVar("Token", str, bytes, str | bytes)

MODES: Final = (A256GCM, HS256)
AUDIENCE: Final = "billing"
TTL: Final = 600
PRINCIPALS: Final = tuple(f"user-{number}@example.com" for number in range(16))
METHOD: Final = "tools/call"
PARAMS: Final[dict[str, Any]] = {
    "name": "refund",
    "arguments": {"order": "ORD-7001", "amount": 129.5, "currency": "EUR", "notify": True},
}
REQUEST: Final = Request.from_params(METHOD, PARAMS)
NO_CAP: Final = 1 << 20  # characters

SMALL_MAP: Final[dict[str | int, State]] = {
    "step": "confirm",
    "order": "ORD-7001",
    "cents": 1500,
    "currency": "EUR",
    "reason": "damaged box",
}
"""A state as most tools have it: 90 bytes as JSON."""

MAP: Final[dict[str | int, State]] = {
    "step": "confirm",
    "order": "ORD-7001",
    "amount": 129.5,
    "currency": "EUR",
    "items": [
        {"sku": "SKU-1042", "quantity": 2, "price": 49.75},
        {"sku": "SKU-2203", "quantity": 1, "price": 30.0},
    ],
    "approved_by": None,
    "attempts": 1,
    "notify": True,
}
"""A larger and nested state: 216 bytes as JSON."""


def text(size: int) -> str:
    """Make a text state of so many bytes."""
    words = "the quick brown fox jumps over the lazy dog; "
    return (words * (size // len(words) + 1))[:size]


def as_text(state: State) -> str:
    """Write a state as compact JSON, as a server does that can only carry text."""
    return json.dumps(state, separators=(",", ":"))


STATES: Final[dict[str, State]] = {
    "text of 64 B": text(64),
    "text of 256 B": text(256),
    "text of 1 KB": text(1 << 10),
    "text of 4 KB": text(4 << 10),
    "text of 16 KB": text(16 << 10),
    "text of 64 KB": text(64 << 10),
    "small map": SMALL_MAP,
    "nested map": MAP,
}
BOUND: Final = ("text of 256 B", "small map", "nested map")
"""The states that are compared with other libraries."""


def ring_of(count: int, alg: str) -> Keyring:
    """Make a ring of so many keys, named as the library names them; the last one seals."""
    return Keyring(Key.generate(alg, kid=f"{number:04x}", now=number) for number in range(count))


def box_of(alg: str, keys: int = 1) -> Statebox:
    """Make a box over a ring of so many keys, without a cap that a benchmark would meet."""
    return Statebox(ring_of(keys, alg), audience=AUDIENCE, ttl=TTL, max_token_chars=NO_CAP)


def live_box_of(alg: str, folder: Path) -> Statebox:
    """Make a box that follows a keyring file, which it writes first."""
    path = folder / f"{alg}.json"
    path.touch(mode=0o600)
    path.write_text(ring_of(1, alg).to_json())
    return Statebox.from_source(f"file:{path}", audience=AUDIENCE, ttl=TTL, max_token_chars=NO_CAP)


@dataclass(frozen=True)
class Pair:
    """One way to protect a state, and to read what it made."""

    seal: Callable[[], str | bytes]
    open: Callable[[], object]
    both: Callable[[], object]


def in_turns(
    people: Sequence[Person],
    seal: Callable[[Person], Token],
    read: Callable[[Person, Token], object],
) -> Pair:
    """Make calls that are for the next person each time, as a server's are.

    Whatever remembers the last person gains within a round trip, as it does within a request, and
    not from one round trip to the next.

    Args:
        people: Whom to seal and open for.
        seal: Seals for a person.
        read: Opens a token for a person.
    """
    turns, ready = cycle(people), cycle([(person, seal(person)) for person in people])

    def both() -> object:
        person = next(turns)
        return read(person, seal(person))

    return Pair(lambda: seal(next(turns)), lambda: read(*next(ready)), both)


def sealing(box: Statebox, state: State, *, bound: bool) -> Pair:
    """Give the calls that seal a state and open it, with all bindings or with none.

    The request is ready; the principal is text, as a server has it.
    """
    if bound:
        return in_turns(
            PRINCIPALS,
            lambda person: box.seal(state, principal=person, request=REQUEST),
            lambda person, token: box.open(token, principal=person, request=REQUEST),
        )
    seal = partial(box.seal, state, principal=None, request=None)

    def both() -> object:
        return box.open(seal(), principal=None, request=None)

    return Pair(seal, partial(box.open, seal(), principal=None, request=None), both)
