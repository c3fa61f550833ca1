"""What was reached, as text, Markdown and JSON; the charts are in `charts`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks import charts
from benchmarks.rows import Row, Target, by_target, verdict

BEGIN: Final = "<!-- benchmarks: begin -->"
END: Final = "<!-- benchmarks: end -->"
PACKAGES: Final = (
    "cbor2",
    "cryptography",
    "itsdangerous",
    "joserfc",
    "mcp",
    "PyJWT",
    "pyseto",
)


def line(row: Row) -> str:
    """Write one comparison as a line of text: its median, and the quartiles around it."""
    met = {None: "", True: "", False: "  missed"}[row.met]
    reached = row.reached
    return (
        f"{row.what:54} {_number(reached.median, row.target)}"
        f"   [{_number(reached.low, row.target)}, {_number(reached.high, row.target)}]{met}"
    )


def table(rows: Sequence[Row]) -> str:
    """Write one line for each target."""
    cells = [("what", "reached", "at most", "verdict"), *_cells(rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines) + "\n"


def markdown(rows: Sequence[Row], rounds: int) -> str:
    """Write the table of targets, and below it every comparison behind it."""
    lines = ["| what | reached | at most | verdict |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(cells) + " |" for cells in _cells(rows)]
    lines += ["", f"Rounds: {rounds}. Measured with {_where()}.", "", "## Every comparison", ""]
    lines += ["| what | median | quartiles |", "|---|---|---|"]
    for target, group in by_target(rows).items():
        at_most = "" if target.at_most is None else f"at most {_number(target.at_most, target)}"
        lines.append(f"| **{target.name}** | {at_most} | |")
        for row in group:
            median, low, high = (
                _number(value, target)
                for value in (row.reached.median, row.reached.low, row.reached.high)
            )
            if row.met is False and median == _number(target.at_most or 0, target):
                median = f"{row.reached.median:.4f}"  # so near that it would read as reached
            mark = " (missed)" if row.met is False else ""
            lines.append(f"| {row.what} | {median}{mark} | {low} to {high} |")
    return "\n".join(lines) + "\n"


def show(rows: Sequence[Row], page: Path) -> None:
    """Put the targets and what was reached between the two marks of a page."""
    lines = ["| what | reached | at most |", "|---|---|---|"]
    for what, reached, at_most, told in _cells(rows):
        if at_most:
            mark = "" if told == "reached" else f", {told}"
            lines.append(f"| {what} | {reached}{mark} | {at_most} |")
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    table = "\n".join(lines)
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}", "utf-8")


def write(rows: Sequence[Row], folder: Path, rounds: int) -> None:
    """Write everything into a folder: ratios.json, ratios.md and the charts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ratios.json").write_text(json.dumps(_plain(rows, rounds), indent=1) + "\n")
    (folder / "ratios.md").write_text(markdown(rows, rounds))
    charts.draw(rows, folder)


def _cells(rows: Sequence[Row]) -> list[tuple[str, str, str, str]]:
    cells: list[tuple[str, str, str, str]] = []
    for target, group in by_target(rows).items():
        medians = sorted(row.reached.median for row in group)
        least, most = (_number(value, target) for value in (medians[0], medians[-1]))
        reached = least if least == most else f"{least} to {most}"
        at_most = "" if target.at_most is None else _number(target.at_most, target)
        cells.append((target.name, reached, at_most, verdict(group)))
    return cells


def _number(value: float, target: Target) -> str:
    match target.unit:
        case "%":
            return f"{value * 100:.1f} %"
        case "ms":
            return f"{value:.0f} ms"
        case "us":
            return f"{value:.2f} us"
        case _:
            return f"{value:.2f}"


def _where() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores; {packages}"
    )


def _plain(rows: Sequence[Row], rounds: int) -> dict[str, Any]:
    return {
        "rounds": rounds,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: version(name) for name in PACKAGES},
        "targets": [
            {
                "what": target.name,
                "unit": target.unit,
                "at_most": target.at_most,
                "verdict": verdict(group),
                "comparisons": [
                    {
                        "what": row.what,
                        "median": round(row.reached.median, 4),
                        "quartiles": [round(row.reached.low, 4), round(row.reached.high, 4)],
                    }
                    for row in group
                ],
            }
            for target, group in by_target(rows).items()
        ],
    }
