"""Near misses: what else is known about a token that its key does not open.

Rings are called the first and the second, never by their source, which can hold a password.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from statebox.errors import AuthenticationError
from statebox.keyring import Keyring
from statebox.keys import Key
from statebox.sealer import Sealer
from statebox_cli.anatomy import Header, is_whole
from statebox_cli.find import Call
from statebox_cli.mend import mend

_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_MOST_KIDS: Final = 4
_MOST_PARTS: Final = 4


class Near(NamedTuple):
    """What is known more exactly than the error says.

    Attributes:
        message: Why.
        hint: What to do; None: what the error says.
    """

    message: str
    hint: str | None = None


def damaged(token: str) -> Near | None:
    """Tell whether a malformed token would be one without what was done to it."""
    mended = mend(token)
    if not mended.damage or not is_whole(mended.text):
        return None
    return Near(
        f"the value was changed on its way: {', '.join(mended.damage)}",
        "Look at what stands between server and client: it must pass the value on as it is.",
    )


def unknown_key(header: Header | None, rings: Sequence[Keyring]) -> Near:
    """Tell why the first ring has no key for a header."""
    ring = rings[0]
    if header is None:
        return Near(
            "the token's header has a form that statebox does not write, so no key is named",
            "Find out which program made it; statebox did not.",
        )
    for ordinal, other in zip(_ORDINALS[1:], rings[1:], strict=False):
        if _key(other, header):
            return Near(
                f"the {ordinal} ring has key {header.kid}, the first has not",
                "Give every replica the same ring; `statebox keys diff` compares two.",
            )
    twin = ring.get(header.kid)
    if twin is not None:
        return Near(
            f"the token names {header.kid} as {header.alg}, the ring has it as {twin.alg}",
            "One kid is two keys in two rings: `statebox keys diff` compares them.",
        )
    return Near(
        f"the token names {header.kid}; this ring has {_kids(ring)}",
        "Sealed by a replica with another ring, or under a key that was pruned: give the other "
        "ring as a second --keyring, or start the flow again.",
    )


def authenticate(token: str, key: Key, kid: str | None = None) -> bytes | None:
    """Authenticate a token under a key, whatever the key's role.

    Args:
        token: A token whose frame was checked.
        key: The key whose secret is tried.
        kid: The kid that the token names, if it is another than the key's.

    Returns:
        The payload, or None if the tag does not match.
    """
    jwk = {name: value for name, value in key.to_jwk().items() if name not in ("exp", "revoked")}
    ring = Keyring.from_jwks({"keys": [jwk | {"kid": kid or key.kid}]})
    try:
        payload, *_ = Sealer(ring, max_token_chars=max(len(token), 256)).open(token, key.nbf)
    except AuthenticationError:
        return None
    return payload


def unauthentic(token: str, header: Header, key: Key, rings: Sequence[Keyring]) -> Near:
    """Tell why a token's tag does not match, as far as the rings can tell."""
    others = [
        (ordinal, twin)
        for ordinal, ring in zip(_ORDINALS[1:], rings[1:], strict=False)
        if (twin := _key(ring, header)) is not None
    ]
    for ordinal, twin in others:
        if authenticate(token, twin) is not None:
            return Near(
                f"key {header.kid} has one secret in the first ring and another in the {ordinal}, "
                "which sealed this token",
                "Give one of the two keys another kid, and every replica the same ring.",
            )
    for other in rings[0]:
        if (
            other.alg == header.alg
            and other.kid != header.kid
            and authenticate(token, other, header.kid) is not None
        ):
            return Near(
                f"it was sealed with the secret that this ring calls {other.kid}, "
                f"under the kid {header.kid}",
                "A kid was changed by hand in one ring; `statebox keys diff` shows where.",
            )
    if any(twin.same_secret(key) for _, twin in others):
        return Near(
            f"the tag does not match, and the rings agree on {header.kid}: the token was changed",
            "Someone or something changed it on its way; look at who presented it.",
        )
    return Near(
        "the tag does not match: the token was changed, or sealed with another secret under "
        f"the kid {header.kid}",
        "Give the ring of the replica that sealed it as a second --keyring to tell which.",
    )


def principal(parts: tuple[str, ...], matches: Callable[[tuple[str, ...]], bool]) -> Near | None:
    """Tell whether the same parts in another order are who the token is for."""
    if not 1 < len(parts) <= _MOST_PARTS:
        return None
    if any(matches(order) for order in itertools.permutations(parts)):
        return Near(
            "bound to the same parts in another order",
            "Give the parts in one order everywhere: issuer, subject, client.",
        )
    return None


def arguments(call: Call, matches: Callable[[Call], bool]) -> Near | None:
    """Tell whether the arguments differ in a way that clients make them differ."""
    given: dict[str, Any] = call.params.get("arguments") or {}
    if not given:
        return None

    def with_only(names: set[str]) -> Call:
        arguments = {name: given[name] for name in names}
        return Call(call.method, {**call.params, "arguments": arguments})

    if matches(with_only(set())):
        return Near("sealed for a call without arguments, presented with some")
    filled = {name for name in given if given[name] is not None}
    if filled != set(given) and matches(with_only(filled)):
        return Near("the arguments differ by members that are null, and were absent before")
    return None


def _key(ring: Keyring, header: Header) -> Key | None:
    key = ring.get(header.kid)
    return key if key is not None and key.alg == header.alg else None


def _kids(ring: Keyring) -> str:
    kids = [key.kid for key in reversed(list(ring))]
    more = len(kids) - _MOST_KIDS
    return ", ".join(kids[:_MOST_KIDS]) + (f" and {more} more" if more > 0 else "")
