"""Break a copy of the library and run the tests that must notice."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.mutants.catalogue import Mutant

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 300  # seconds; a mutant may make a loop endless
_SETTINGS: Final = """[pytest]
pythonpath = . cli
addopts = --import-mode=importlib -p anyio
anyio_mode = auto
consider_namespace_packages = true
"""


class Workbench:
    """A copy of the repository that can be broken.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__", "cli")
        for name in ("statebox", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        (folder / "pytest.ini").write_text(_SETTINGS, "utf-8")
        self._moments = itertools.count(1_000_000_000)

    def run(self, tests: tuple[str, ...]) -> tuple[int, str]:
        """Run tests against the copy, up to the first failure.

        Returns:
            The exit code of pytest (0: all passed, 1: one failed), and what it wrote.
        """
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        environment = os.environ | {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(self.folder),
            "PYTHONHASHSEED": "0",
        }
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 1, "FAILED it did not end"
        return done.returncode, done.stdout + done.stderr

    def try_mutant(self, mutant: Mutant) -> tuple[bool, str]:
        """Apply a mutant, run its tests, and take it back.

        Returns:
            Whether a test failed, and which, or what else happened.

        Raises:
            LookupError: The text to replace does not stand in the file exactly once: the library
                has changed, and the catalogue has to follow.
        """
        path = self.folder / "statebox" / mutant.file
        source = path.read_text("utf-8")
        if source.count(mutant.before) != 1:
            raise LookupError(
                f"{mutant.name}: {mutant.file} has {source.count(mutant.before)} times: {mutant.before}"
            )
        self._write(path, source.replace(mutant.before, mutant.after))
        try:
            code, output = self.run(mutant.tests)
        finally:
            self._write(path, source)
        failed = [line for line in output.splitlines() if line.startswith("FAILED")]
        return code == 1 and bool(failed), failed[0] if failed else output[-2000:]

    def _write(self, path: Path, source: str) -> None:
        path.write_text(source, "utf-8")
        # Bytecode is found by the second and the size of its source: each write has its own second.
        moment = next(self._moments)
        os.utime(path, (moment, moment))
