"""Ratios that hold on a busy machine: functions take turns, and each round gives one ratio.

Two functions that are measured minutes apart differ by whatever else the machine did meanwhile.
Here every function runs for about a millisecond, then the next one, round after round in random order.
Within a round the load is the same for all, and the median over the rounds drops those in which it was not.
Time is the thread's own CPU time, so waiting for a core does not count.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

Call = Callable[[], object]
Clock = Callable[[], float]
Turn = Mapping[str, float]


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
        rounds: How often every function gets its turn.
        span: How long a turn lasts at least, in seconds.
    """

    rounds: int = 200
    span: float = 0.001

    def times(self, factor: float) -> Effort:
        """Give fewer rounds where there is much to compare."""
        return Effort(max(1, round(self.rounds * factor)), self.span)

    def finer(self, part: float) -> Effort:
        """Give a part of ten times as many and much shorter turns, where there is little room for noise."""
        return Effort(max(1, round(self.rounds * 10 * part)), self.span / 4)


@dataclass(frozen=True)
class Ratio:
    """A median over rounds, and the quartiles that tell how far to trust it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Ratio:
        """Summarize the values of all rounds."""
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high)


@dataclass(frozen=True)
class Rounds:
    """The seconds per call of every function, one entry a round."""

    turns: Sequence[Turn]

    def ratio(self, name: str, base: str) -> Ratio:
        """Compare two functions round by round."""
        return self.of(lambda at: at[name] / at[base])

    def of(self, value: Callable[[Turn], float]) -> Ratio:
        """Summarize what a function makes of the seconds of each round."""
        return Ratio.of([value(turn) for turn in self.turns])


def interleave(
    functions: Mapping[str, Call], effort: Effort, *, clock: Clock = time.thread_time
) -> Rounds:
    """Measure functions in turns.

    Args:
        functions: What to compare, by name.
        effort: For how long.
        clock: What time is taken from, in seconds: the thread's own processor time, unless the
            functions wait for something else.

    Returns:
        The seconds per call of every function in every round.
    """
    counts = {name: _calls_within(effort.span, call, clock) for name, call in functions.items()}
    names, order = list(functions), random.Random(0)
    turns: list[Turn] = []
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(effort.rounds):
            # Whoever follows a function that runs the same code finds the caches warm.
            order.shuffle(names)
            turns.append({name: _time(functions[name], counts[name], clock) for name in names})
    finally:
        if enabled:
            gc.enable()
    return Rounds(turns)


def _calls_within(span: float, call: Call, clock: Clock) -> int:
    count = 1
    while (taken := _time(call, count, clock) * count) < span:
        count = max(count * 2, int(count * span / taken)) if taken > span / 100 else count * 10
    return count


def _time(call: Call, count: int, clock: Clock) -> float:
    call()  # untimed: the first one after others is not like the rest
    start = clock()
    for _ in repeat(None, count):
        call()
    return (clock() - start) / count
