"""Times as a person reads them: absolute in UTC, and relative to the moment of judging."""

from __future__ import annotations

import time
from typing import Final

from statebox.claims import TIME_LIMIT

_BEYOND: Final = "beyond all clocks"
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def absolute(seconds: float) -> str:
    """Write a time as `2026-12-01 03:14:00Z`.

    Args:
        seconds: Seconds since 1970.

    Returns:
        The time in UTC. Not by datetime, whose years end before a token's do.
    """
    if not _known(seconds):
        return _BEYOND
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


def span(seconds: float) -> str:
    """Write a length of time in its two largest units, as `2 h 5 min`.

    Args:
        seconds: Seconds; a negative number counts as its absolute value.

    Returns:
        The length, rounded down to whole seconds.
    """
    if not abs(seconds) < TIME_LIMIT:
        return _BEYOND
    rest = int(abs(seconds))
    words: list[str] = []
    for size, unit in _UNITS:
        if rest >= size and len(words) < 2:
            words.append(f"{rest // size} {unit}")
            rest %= size
        elif words:
            break
    return " ".join(words) or "0 s"


def relative(seconds: float, now: float) -> str:
    """Write a time as seen from now: `4 min ago`, `in 2 h`, `now`."""
    if not _known(seconds):
        return _BEYOND
    if int(seconds) == int(now):
        return "now"
    return f"in {span(seconds - now)}" if seconds > now else f"{span(now - seconds)} ago"


def both(seconds: float, now: float) -> str:
    """Write a time both ways: `2026-12-01 03:14:00Z, 4 min ago`."""
    return f"{absolute(seconds)}, {relative(seconds, now)}" if _known(seconds) else _BEYOND


def _known(seconds: float) -> bool:
    # Of a token that nobody checked, it may be any number; false for NaN.
    return 0 <= seconds < TIME_LIMIT
