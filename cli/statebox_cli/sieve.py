"""Find tokens in a stream of any size, with the time of the line that each stands in.

Holds one block at a time. A token is never cut in two: a block ends where a line ends, or at least
where no token goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import BinaryIO, Final, NamedTuple

BLOCK: Final = 1 << 20  # bytes
_LONGEST: Final = 1 << 17  # bytes of what is carried into the next block
_LINE_HEAD: Final = 512  # bytes of a line in which its time is looked for

# One pass for each prefix: with a literal at its start the engine skips what cannot match.
_PATTERNS: Final = (
    re.compile(rb"sb1\.[A-Za-z0-9_-]{16,}"),
    re.compile(rb"v1\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+)?"),
    re.compile(rb"rs[12]\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){1,2}"),
)
_WITHIN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_ISO: Final = re.compile(
    rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
_EPOCH: Final = re.compile(rb"""(?:^|"(?:ts|time|timestamp)":\s*"?)(1\d{9})(?:\d{3})?\b""")


class Hit(NamedTuple):
    """A token in a stream.

    Attributes:
        token: Its text.
        when: The time of its line, in seconds since 1970; None where the line has none.
    """

    token: str
    when: float | None


def hits_in(stream: BinaryIO, progress: Callable[[bytes], object]) -> Iterator[Hit]:
    """Find every token in a stream.

    Args:
        stream: Bytes of any size and content.
        progress: Is given each block that was read, before it is searched.

    Yields:
        Each token that occurs, as often as it occurs.
    """
    rest = head = b""
    while block := stream.read(BLOCK):
        progress(block)
        data = rest + block
        end = _end(data)
        yield from _in_block(data[:end], head)
        head = _head(data[:end], head)
        rest = data[end:]
    yield from _in_block(rest, head)


def _head(data: bytes, head: bytes) -> bytes:
    # The start of the line that goes on after a block; it may have begun in an earlier one.
    line = data.rfind(b"\n") + 1
    start = data[line : line + _LINE_HEAD]
    return start if line else (head + start)[:_LINE_HEAD]


def _end(data: bytes) -> int:
    line = data.rfind(b"\n") + 1
    if line or len(data) < _LONGEST:
        return line
    # A line without end: cut where no token goes on, or anywhere if that is no token any more.
    tail = data[-_LONGEST:]
    before = tail.rstrip(_WITHIN)
    return len(data) - len(tail) + len(before) if before else len(data)


def _in_block(data: bytes, head: bytes) -> Iterator[Hit]:
    dates = _Dates()
    for pattern in _PATTERNS:
        line = 0
        for match in pattern.finditer(data):
            start = match.start()
            if start and data[start - 1] in _WITHIN:
                continue
            # From the line of the hit before: a long line is not searched again for each.
            line = max(line, data.rfind(b"\n", line, start) + 1)
            said = data[line : min(start, line + _LINE_HEAD)]
            when = dates.of(said if line else (head + said)[:_LINE_HEAD])
            yield Hit(match[0].decode("ascii"), when)


class _Dates:
    """Reads the times of lines; neighbours often have the same one."""

    def __init__(self) -> None:
        self._last: tuple[bytes, float | None] = (b"", None)

    def of(self, head: bytes) -> float | None:
        match = _ISO.search(head)
        if match is None:
            epoch = _EPOCH.search(head)
            return float(epoch[1]) if epoch else None
        text = match[0]
        if text != self._last[0]:
            self._last = (text, _seconds(match))
        return self._last[1]


def _seconds(match: re.Match[bytes]) -> float | None:
    zone = (match[3] or b"Z").decode("ascii")
    try:
        moment = datetime.fromisoformat(f"{match[1].decode()}T{match[2].decode()}{zone}")
        return moment.astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None
