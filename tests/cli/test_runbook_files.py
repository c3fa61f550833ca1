"""docs/runbook.md: whatever a recipe writes secrets into can be read by its owner only."""

import re
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.keys_commands import environment
from tests.test_runbook import RUNBOOK
from tests.test_runbook import folder as folder  # noqa: PLC0414 - a fixture

# A command that prints secrets, and the file that they go to.
REDIRECTED = re.compile(
    r"^[^\n]*statebox keys (?:export --secrets|rotate|init|import)\b[^\n>]*> ([\w.]+)", re.MULTILINE
)
RECIPES = {
    found[0]: block
    for block in re.findall(r"(?ms)^```(?:console|sh)\n(.*?)^```", RUNBOOK.read_text("utf-8"))
    for found in [REDIRECTED.search(block)]
    if found
}


def test_there_are_such_recipes() -> None:
    files = [REDIRECTED.findall(block) for block in RECIPES.values()]
    assert files == [["copy.json"], ["new.json"], ["new.json"]]


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_file_that_a_recipe_writes_secrets_into_is_private(recipe: str, folder: Path) -> None:
    # The secret managers are not here; each gives the ring, and keeps nothing.
    for name, does in (
        ("vault", "cat keyring.json"),
        ("kubectl", "cat keyring.json"),
        ("shred", ":"),
    ):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / "bin" / name).chmod(0o700)
    variables = environment(PATH=f"{folder}/bin:/usr/bin:/bin", STATEBOX_KEYRING="keyring.json")
    script = "umask 022; set -e\n" + re.sub(r"(?m)^\$ ", "", recipe)
    subprocess.run(["bash", "-c", script], cwd=folder, env=variables, check=True)
    (path,) = REDIRECTED.findall(recipe)
    assert '"k": ' in (folder / path).read_text()
    assert stat.S_IMODE((folder / path).stat().st_mode) == 0o600
