"""The command line under test: within this process where that is enough, else as a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from statebox_cli.group import CommandGroup
from statebox_cli.main import COMMANDS

ROOT = Path(__file__).parent.parent.parent


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its stdout, which has to be one JSON value and nothing else."""
        return json.loads(self.out)


def run(*arguments: str, stdin: str | bytes = "", env: Mapping[str, str] | None = None) -> Ran:
    """Run the command within this process; stdin is no terminal."""
    result = CliRunner().invoke(CommandGroup(COMMANDS), list(arguments), input=stdin, env=env)
    return Ran(result.exit_code, result.stdout, result.stderr)


def spawn(
    *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, command: str = ""
) -> Ran:
    """Run the command in a process of its own."""
    program = ["-c", command] if command else ["-m", "statebox"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "cli")])
    ran = subprocess.run(
        [sys.executable, *program, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths, **(env or {})},
    )
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def secret_file(folder: Path, name: str, content: str) -> Path:
    """Write a file that only its owner may read."""
    path = folder / name
    path.touch(mode=0o600)
    path.write_text(content)
    return path
