"""One line of the result table: what was compared, what came out, and what it may be at most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.measuring import Ratio


@dataclass(frozen=True)
class Target:
    """A line of the table of targets.

    Attributes:
        name: What is measured over what.
        at_most: The most it may be; None: measured for information.
        unit: `"x"` for a ratio, `"%"` for one that is shown in percent; `"ms"` or `"us"` where the
            target is one.
    """

    name: str
    at_most: float | None
    unit: str = "x"


@dataclass(frozen=True)
class Row:
    """One comparison, of the several that a target may need.

    Attributes:
        target: The target it belongs to.
        what: Which case of it.
        reached: What came out, over all rounds.
    """

    target: Target
    what: str
    reached: Ratio

    @property
    def met(self) -> bool | None:
        """Whether the target holds; None if there is none."""
        at_most = self.target.at_most
        return None if at_most is None else self.reached.median <= at_most


def by_target(rows: Iterable[Row]) -> dict[Target, list[Row]]:
    """Group rows by their target, both in their order."""
    groups: dict[Target, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.target, []).append(row)
    return groups


def verdict(rows: Iterable[Row]) -> str:
    """Say in a word or two whether all rows of a target hold."""
    met = [row.met for row in rows]
    if None in met:
        return "for information"
    return "reached" if all(met) else f"missed in {met.count(False)} of {len(met)}"
