"""A ring as it is shown: stable keys for JSON, and on a screen a table with a timeline under it.

No secret is in any of it; a fingerprint stands for each.
"""

from __future__ import annotations

import math
import os
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from statebox.keyring import Keyring
from statebox.keys import Key
from statebox_cli.keys_lifetimes import end_of, reigns, sealing
from statebox_cli.output import WIDTH, printable
from statebox_cli.times import absolute, relative, span

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_COLOURS: Final = {
    "pending": "cyan",
    "active": "green",
    "verifying": "yellow",
    "expired": "bright_black",
    "revoked": "red",
}
_LABEL: Final = 20  # columns; a kid that was made here has 17
_BAR: Final = WIDTH - _LABEL - 2


def key_view(ring: Keyring, key: Key, now: float) -> dict[str, Any]:
    """Put what is known of a key into JSON.

    Args:
        ring: Its ring.
        key: The key.
        now: Seconds since 1970.

    Returns:
        Its members without the secret, its role, its fingerprint, its age in seconds, from when
        until when it seals, and until when it opens. (Any: the members are of several types.)
    """
    reign = sealing(ring, key)
    return {
        "kid": key.kid,
        "alg": key.alg,
        "role": ring.role(key, now),
        "fingerprint": key.fingerprint,
        "iat": key.iat,
        "nbf": key.nbf,
        "exp": key.exp,
        "age": None if key.iat is None else int(now) - key.iat,
        "seals_from": None if reign is None else reign[0],
        "seals_until": None if reign is None else _finite(reign[1]),
        "opens_until": _finite(_last(key)),
        "revoked": None
        if key.revoked is None
        else {"revoked_at": key.revoked.revoked_at, "reason": key.revoked.reason},
    }


def ring_view(ring: Keyring, now: float) -> list[dict[str, Any]]:
    """Put what is known of every key into JSON, in the order of their nbf."""
    return [key_view(ring, key, now) for key in ring]


def _finite(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds


def ring_text(ring: Keyring, now: float) -> str:
    """Draw a ring: a table of its keys, and when each seals and opens.

    Args:
        ring: The ring.
        now: Seconds since 1970.

    Returns:
        Lines of 80 columns at most, without a line break at the end.
    """
    from rich.console import Group
    from rich.text import Text

    return drawn(Group(_table(ring, now), Text(), _timeline(ring, now)))


def drawn(picture: RenderableType) -> str:
    """Turn what rich draws into text; in colour by the rule of `output.styled`."""
    from rich.console import Console

    coloured = (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )
    out = StringIO()
    console = Console(
        file=out,
        width=WIDTH,
        force_terminal=coloured,
        color_system="standard" if coloured else None,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    console.print(picture)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


def _table(ring: Keyring, now: float) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("KEY", overflow="fold")
    table.add_column("ROLE", no_wrap=True)
    table.add_column("AGE", no_wrap=True)
    table.add_column("SEALS", no_wrap=True)
    table.add_column("OPENS UNTIL")
    for key in ring:
        role = ring.role(key, now)
        table.add_row(
            f"{key.kid}\n{key.fingerprint}",
            Text.assemble((role, _COLOURS[role]), f"\n{key.alg}"),
            "-" if key.iat is None else _largest_unit(now - key.iat),
            _seals(ring, key, now),
            _opens(key, now),
        )
    return table


def _seals(ring: Keyring, key: Key, now: float) -> str:
    reign = sealing(ring, key)
    if reign is None:
        return "-" if key.revoked is not None else "never"
    start, end = reign
    if start > now:
        return f"{relative(start, now)}\nfrom {_minute(start)}"
    if math.isinf(end):
        return "now\nwithout end"
    return f"{'now' if end > now else f'ended {relative(end, now)}'}\nuntil {_minute(end)}"


def _opens(key: Key, now: float) -> str:
    if key.revoked is not None:
        ago = _largest_unit(now - key.revoked.revoked_at)
        return f"revoked {ago} ago\n{printable(key.revoked.reason or '')}".rstrip()
    if key.exp is None:
        return "without end"
    return f"{_minute(key.exp)}\n{relative(key.exp, now)}"


def _minute(seconds: float) -> str:
    # A screen has no room for the seconds; --json has them.
    text = absolute(seconds)
    return f"{text[:-4]}Z" if text.endswith("Z") else text


def _largest_unit(seconds: float) -> str:
    return " ".join(span(seconds).split()[:2])


def _timeline(ring: Keyring, now: float) -> Text:
    """Draw one bar for each key, from a little before now until the last date of the ring."""
    from rich.text import Text

    left, right = _window(ring, now)
    seals, opens, here = ("█", "─", "▼") if _has_blocks() else ("#", "-", "v")

    def column(time: float) -> int:
        return math.floor((min(max(time, left), right) - left) / (right - left) * _BAR)

    text = Text(f"{'':{_LABEL}}{'':{column(now)}}{here} now, {_minute(now)}\n")
    for key in ring:
        bar = [" "] * _BAR
        _fill(bar, column(-math.inf if key.iat is None else key.iat), column(_last(key)), opens)
        for reign in reigns(ring):
            if reign.kid == key.kid:
                _fill(bar, column(reign.start), column(reign.end), seals)
        label = key.kid if len(key.kid) < _LABEL else f"{key.kid[: _LABEL - 3]}.."
        text.append(f"{label:{_LABEL}}")
        text.append("".join(bar), _COLOURS[ring.role(key, now)])
        text.append("\n")
    text.append(f"{seals} seals  {opens} opens".ljust(_LABEL))
    return text.append(f"{_minute(left)}{_minute(right):>{_BAR - 17}}")


def _window(ring: Keyring, now: float) -> tuple[float, float]:
    dates = [date for key in ring for date in (key.nbf, key.exp) if date is not None and date > now]
    ahead = max(dates, default=now + ring.max_ttl) - now
    # A quarter of the picture lies behind, however old the keys are: what counts is ahead.
    return now - ahead / 3, now + ahead * 1.02


def _last(key: Key) -> float:
    return end_of(key) if key.revoked is None else key.revoked.revoked_at


def _fill(bar: list[str], start: int, end: int, char: str) -> None:
    # However short it is, what lies within the picture is seen.
    if start < len(bar) and end > 0:
        end = max(end, start + 1)
        bar[start:end] = char * (end - start)


def _has_blocks() -> bool:
    try:
        "█─▼".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
