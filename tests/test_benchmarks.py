"""Every benchmark still runs, and the whole table can be made. Nothing is measured here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from benchmarks.report import BEGIN, END

ROOT = Path(__file__).parent.parent
TARGETS = {
    "seal, open without bindings, over the floor",
    "seal + open with all bindings, over the SDK's boundary",
    "seal + open with all bindings, over each other peer",
    "the same, over the SDK's codec alone with inline claims and checks",
    "characters of a token over the SDK's, the state as text",
    "characters of a token over the SDK's, the same state as a map",
    "a ring of 1,000 keys over a ring of 1",
    "each further KB of state over AES-GCM + base64 of it",
    "a live file source over a fixed ring",
    "import statebox over importing AESGCM and cbor2",
    "a token rejected before authentication, over a valid one",
    "statebox inspect, CPU time beyond python -c pass",
    "spending a token with a MemoryGuard",
}


def run(*arguments: str | Path) -> str:
    """Run a module of Python's in the checkout, and give what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def test_every_benchmark_runs() -> None:
    printed = run("pytest", "benchmarks", "--benchmark-disable", "-q", "-p", "no:cacheprovider")
    assert "passed" in printed
    assert "skipped" not in printed


def test_the_table_the_json_and_the_charts_are_made_in_one_run(tmp_path: Path) -> None:
    printed = run("benchmarks", "--quick", "--into", tmp_path)
    results: dict[str, Any] = json.loads((tmp_path / "ratios.json").read_text("utf-8"))
    with_a_limit = {
        target["what"] for target in results["targets"] if target["at_most"] is not None
    }
    assert with_a_limit == TARGETS
    page = (tmp_path / "ratios.md").read_text("utf-8")
    for target in results["targets"]:
        assert f"| {target['what']} | " in page
        assert target["what"] in printed
        assert target["comparisons"]
    for chart in ("floor.svg", "peers.svg", "characters.svg"):
        drawn = ET.parse(tmp_path / chart)  # noqa: S314 - a file of our own making
        assert drawn.getroot().tag.endswith("svg")


def test_the_readme_shows_the_results_that_lie_beside_it() -> None:
    page = (ROOT / "benchmarks" / "results" / "ratios.md").read_text("utf-8")
    shown = (ROOT / "README.md").read_text("utf-8").split(BEGIN)[1].split(END)[0].splitlines()[3:]
    targets = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()[2:]
    ]
    targets = [cells for cells in targets[: targets.index([""])] if cells[2]]
    assert shown == [
        f"| {what} | {reached}{'' if verdict == 'reached' else f', {verdict}'} | {at_most} |"
        for what, reached, at_most, verdict in targets
    ]
