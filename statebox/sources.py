"""Where a live keyring comes from, and when to look again."""

from __future__ import annotations

from typing import Protocol, final

from statebox.keyring import Keyring


class Source(Protocol):
    """Something that gives a keyring now, and may give another one later."""

    def current(self) -> Keyring:
        """Give the ring as last read; looks for a change only when one is due."""
        ...

    def reread(self) -> Keyring:
        """Read again because a token names an unknown key; rate-limited, so perhaps no new ring."""
        ...


@final
class FixedSource:
    """A ring that stays as it is."""

    __slots__ = ("_ring",)

    def __init__(self, ring: Keyring) -> None:
        self._ring = ring

    def current(self) -> Keyring:
        """Give the ring."""
        return self._ring

    def reread(self) -> Keyring:
        """Give the same ring."""
        return self._ring
