"""The results as pictures: three SVG files that a README can show."""

# matplotlib's types leave **kwargs without one, and pyright would say so at every call.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.comparisons import BOUNDARY, CODEC, FLOOR, MAP_CHARS, PEERS, TEXT_CHARS
from benchmarks.rows import Row, Target
from statebox.keys import A256GCM

OURS: Final = "#2a6f97"
THEIRS: Final = "#a9b4be"
LIMIT: Final = "#c1121f"
COLORS: Final = ("#2a6f97", "#89c2d9", "#9c6644", "#ddb892")
_MAPS: Final = (
    ("small map", "a map of 90 bytes as JSON", "#7f8c97"),
    ("nested map", "a nested map of 216 bytes", "#c3cad0"),
)


def draw(rows: Sequence[Row], folder: Path) -> None:
    """Draw floor.svg, peers.svg and characters.svg into a folder."""
    # The same results give the same bytes, so that a commit shows what has changed.
    with mpl.rc_context({"svg.hashsalt": "statebox", "svg.fonttype": "none", "font.size": 9}):
        _save(_floor(rows), folder / "floor.svg")
        _save(_peers(rows), folder / "peers.svg")
        _save(_characters(rows), folder / "characters.svg")


def _floor(rows: Sequence[Row]) -> Figure:
    ratios: dict[str, dict[str, float]] = {}
    for row in _of(rows, FLOOR):
        lead, _, state = row.what.partition(", ")
        ratios.setdefault(lead, {})[state] = row.reached.median
    figure, axes = _figure(height=3.2)
    for (lead, by_state), color, marker in zip(ratios.items(), COLORS, "o^sv", strict=True):
        texts = {state: ratio for state, ratio in by_state.items() if state.startswith("text")}
        maps = {state: ratio for state, ratio in by_state.items() if state not in texts}
        for part in (texts, maps):  # two lines, for a map is no larger text
            label = lead if part is texts else None
            names, values = list(part), list(part.values())
            axes.plot(names, values, color=color, marker=marker, markersize=4, label=label)
    axes.axhline(1.0, color=THEIRS, linewidth=1)
    axes.axhline(FLOOR.at_most or 0, color=LIMIT, linewidth=1, linestyle="--")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("x the bare primitives")
    axes.set_title("Time over the floor, without bindings", loc="left")
    axes.tick_params(axis="x", labelrotation=20)
    axes.legend(frameon=False, ncols=2, loc="lower right")
    return figure


def _peers(rows: Sequence[Row]) -> Figure:
    # How long a peer takes for what statebox does in one unit of time.
    times: dict[str, dict[str, float]] = {}
    for row in (*_of(rows, BOUNDARY), *_of(rows, CODEC), *_of(rows, PEERS)):
        lead, _, state = row.what.rpartition(", ")
        alg, _, peer = lead.partition(" over ")
        if peer or alg == A256GCM:
            times.setdefault(peer or "MCP SDK boundary", {})[state] = 1 / row.reached.median
    figure, axes = _figure(height=0.9 + 0.36 * len(times))
    for shift, (state, label, color) in zip((-0.2, 0.2), _MAPS, strict=True):
        places = [place + shift for place in range(len(times))]
        values = [by_state[state] for by_state in times.values()]
        drawn = axes.barh(places, values, color=color, height=0.36, label=label)
        axes.bar_label(drawn, labels=[f"{value:.1f}" for value in values], padding=3)
    axes.axvline(1.0, color=OURS, linewidth=1.5)
    axes.set_yticks(range(len(times)), list(times))
    axes.invert_yaxis()
    axes.set_title(
        "Time to seal and open with all bindings; statebox in the same mode is 1", loc="left"
    )
    axes.xaxis.set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    return figure


def _characters(rows: Sequence[Row]) -> Figure:
    bars = [("MCP SDK", 100.0, THEIRS)]
    for target, kind in ((TEXT_CHARS, "as text"), (MAP_CHARS, "as a map")):
        bars += [(f"statebox, {kind}", row.reached.median * 100, OURS) for row in _of(rows, target)]
    title = "Characters of a token, in %: a map of 90 bytes as JSON, all bindings"
    return _bars(bars, title, "{:.0f}")


def _bars(bars: Sequence[tuple[str, float, str]], title: str, form: str) -> Figure:
    figure, axes = _figure(height=0.6 + 0.28 * len(bars))
    names, values, colors = zip(*bars, strict=True)
    drawn = axes.barh(names, values, color=colors, height=0.62)
    axes.bar_label(drawn, labels=[form.format(value) for value in values], padding=3)
    axes.invert_yaxis()
    axes.set_xlim(right=max(values) * 1.1)
    axes.set_title(title, loc="left")
    axes.xaxis.set_visible(False)
    return figure


def _of(rows: Sequence[Row], target: Target) -> list[Row]:
    return [row for row in rows if row.target == target]


def _figure(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.2, height), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
