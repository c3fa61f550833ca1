"""The security page names its tests, and says what the format says."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "`test_" in line
]


@cache
def names_of_tests() -> set[str]:
    return {
        node.name
        for path in ROOT.glob("tests/**/test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def test_the_table_has_an_attacker_a_capability_a_defence_and_tests_in_every_row() -> None:
    assert len(ROWS) > 12
    for row in ROWS:
        assert len(row) == 4
        assert all(row)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[1]}")
def test_every_defence_on_the_page_has_the_tests_that_it_names(row: list[str]) -> None:
    named = re.findall(r"`(test_\w+)`", row[3])
    assert named
    assert [name for name in named if name not in names_of_tests()] == []


def test_the_promise_of_the_format_is_given_in_its_own_words() -> None:
    promise = (ROOT / "docs" / "format.md").read_text("utf-8").split("## 7. Promise\n")[1]
    said = " ".join(promise.split("\n\n")[0].split())
    page = " ".join(PAGE.split())
    for sentence in re.split(r"(?<=\.) ", said):
        assert sentence.lower().rstrip(".").replace(
            "what a version of statebox", "what a version"
        ) in (page.lower())


def test_the_page_says_how_to_report_and_names_no_address_that_nobody_reads() -> None:
    assert "Report a vulnerability" in PAGE
    assert not re.search(r"\S+@\S+\.\w+|TODO|example\.(com|org)|<[^>]+>", PAGE)
