"""Measure every target in one run: `python -m benchmarks`.

Prints what was reached, and writes it as JSON, as Markdown tables and as charts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks import comparisons, guards, processes, report, roundtrip, workers
from benchmarks.measuring import Effort, interleave
from benchmarks.rows import Row, Target

ROUNDS: Final = 300
RESULTS: Final = Path(__file__).parent / "results"
README: Final = Path(__file__).parent.parent / "README.md"
ROUND_TRIP: Final = Target("an MCP round trip over HTTP, over one with states in the clear", None)


def round_trips(effort: Effort) -> Iterator[Row]:
    """A call that pauses and the one that finishes it, with the SDK's boundary and statebox's."""
    with roundtrip.round_trips() as calls:
        measured = interleave(calls, effort.times(0.5))
    for name, what in (("statebox", "with statebox"), ("sdk", "with the SDK's boundary")):
        yield Row(ROUND_TRIP, what, measured.ratio(name, "none"))


EVERYTHING: Final[tuple[Callable[[Effort], Iterator[Row]], ...]] = (
    comparisons.against_the_floor,
    comparisons.against_the_boundary,
    comparisons.against_the_peers,
    comparisons.against_the_codec,
    comparisons.token_characters,
    comparisons.large_rings,
    comparisons.further_kilobytes,
    comparisons.live_sources,
    processes.imports,
    comparisons.rejected_tokens,
    processes.inspections,
    comparisons.whole_calls,
    round_trips,
    guards.guards,
    workers.threads,
    workers.processes,
)


def main() -> None:
    """Measure, print and write."""
    names = [measure.__name__ for measure in EVERYTHING]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: does it run at all?")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument("--only", choices=names, metavar="NAME", help="one of " + ", ".join(names))
    parser.add_argument(
        "--into",
        type=Path,
        help="a folder for the results; without it, a whole run of all rounds writes "
        f"{RESULTS.relative_to(README.parent)} and the table of README.md, any other nothing",
    )
    options = parser.parse_args()
    if options.only and options.into:
        parser.error("--only measures a part, and writes nothing")
    effort = Effort(rounds=1, span=1e-5) if options.quick else Effort(rounds=options.rounds)
    rows: list[Row] = []
    for measure in EVERYTHING:
        if options.only in (None, measure.__name__):
            rows.extend(_told(measure(effort)))
    sys.stdout.write("\n" + report.table(rows))
    if options.into:
        report.write(rows, options.into, effort.rounds)
    elif not options.only and effort.rounds >= ROUNDS:
        report.write(rows, RESULTS, effort.rounds)
        report.show(rows, README)


def _told(rows: Iterator[Row]) -> Iterator[Row]:
    target = None
    for row in rows:
        if row.target != target:
            target = row.target
            sys.stdout.write(f"\n{target.name}\n")
        sys.stdout.write(f"  {report.line(row)}\n")
        sys.stdout.flush()
        yield row


if __name__ == "__main__":
    main()
