"""What a server is configured with, checked once at its start: a wrong value never waits for traffic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypedDict

from statebox.claims import MAX_ROUND
from statebox.keyring import Keyring

DEFAULT_TTL: Final = 600  # seconds
DEFAULT_MAX_FLOW_AGE: Final = 3600  # seconds
DEFAULT_MAX_ROUNDS: Final = 32
DEFAULT_LEEWAY: Final = 60  # seconds
_LONGEST: Final = 366 * 86400  # seconds


class Options(TypedDict, total=False):
    """What a `Statebox` takes besides its ring, its audience and its hook; see there."""

    ttl: float
    max_flow_age: float
    max_rounds: int
    leeway: float
    max_token_chars: int
    clock: Callable[[], float]


def require_audience(audience: str) -> bytes:
    """Check the name of a service, and encode it.

    Raises:
        TypeError: It is not text.
        ValueError: It is empty, or not Unicode.
    """
    if type(audience) is not str:
        raise TypeError("audience is text: the name of this service")
    if not audience:
        raise ValueError("audience is empty; name this service, the same on all its replicas")
    if "\0" in audience:  # what Statebox.sibling sets its own audiences apart with
        raise ValueError("audience holds a NUL character")
    return audience.encode()


def require_ttl(ttl: float, ring: Keyring) -> int:
    """Check a lifetime in seconds against a ring.

    Raises:
        ValueError: It is not finite, below one second, or longer than the ring's `max_ttl`.
    """
    whole = seconds("ttl", ttl, least=1)
    if whole > ring.max_ttl:
        raise ValueError(
            f"ttl {whole} s is over the keyring's max_ttl of {ring.max_ttl} s: "
            "a rotation would drop an old key while its tokens live"
        )
    return whole


def require_rounds(max_rounds: int) -> int:
    """Check a cap on the rounds of a flow.

    Raises:
        ValueError: It is not a whole number from 1 to 65,535.
    """
    if type(max_rounds) is not int or not 1 <= max_rounds <= MAX_ROUND:
        raise ValueError(f"max_rounds is a whole number from 1 to {MAX_ROUND}")
    return max_rounds


def seconds(name: str, value: float, *, least: int) -> int:
    """Check a length of time, and cut it to whole seconds.

    Args:
        name: What the message calls it.
        value: The number.
        least: The smallest that is allowed.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not finite, too small, or over a year.
    """
    if type(value) is not int and type(value) is not float:
        raise TypeError(f"{name} is a number of seconds")
    if not least <= value <= _LONGEST:  # false for NaN
        raise ValueError(f"{name} is a number of seconds from {least} to {_LONGEST}")
    return int(value)
