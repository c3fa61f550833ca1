"""The targets of the Makefile that no test runs: what they call is there, with the options they give."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RECIPES = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
PYTEST = re.findall(r"(?m)^\t(?:EXAMPLES=\S+ )?\$\(BIN\)/pytest\b(.*)$", RECIPES)
MODULES = re.findall(r"(?m)^\t\$\(BIN\)/python -m (\S+)", RECIPES)


@pytest.mark.parametrize("options", PYTEST, ids=str.strip)
def test_pytest_takes_the_options_of_every_target(options: str) -> None:
    words = shlex.split(options)
    if not any((ROOT / word).exists() for word in words):
        words.append("tests/test_errors.py")  # of all the tests, some
    command = [sys.executable, "-m", "pytest", *words, "--collect-only", "-q"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr


@pytest.mark.parametrize("module", MODULES)
def test_every_module_that_a_target_runs_is_there(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


def test_the_targets_are_found() -> None:
    assert len(PYTEST) >= 5
    assert {"benchmarks", "tests.mutants", "tests.soak.rotation"} <= set(MODULES)
