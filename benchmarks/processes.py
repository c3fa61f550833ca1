"""What a fresh process pays: for importing the library, and for looking at one token."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchmarks.cases import MAP, box_of, sealing
from benchmarks.measuring import Effort, Rounds, Turn
from benchmarks.rows import Row, Target
from statebox.keys import A256GCM

IMPORT: Final = Target("import statebox over importing AESGCM and cbor2", 1.2)
INSPECT: Final = Target("statebox inspect, CPU time beyond python -c pass", 150.0, unit="ms")

PRIMITIVES: Final = "from cryptography.hazmat.primitives.ciphers.aead import AESGCM; import cbor2"
LIBRARY: Final = "import statebox"


def imports(effort: Effort) -> Iterator[Row]:
    """Importing statebox, over importing what any such library needs; beyond an empty process."""
    commands = {
        "statebox": python(LIBRARY),
        "primitives": python(PRIMITIVES),
        "nothing": python("pass"),
    }
    measured = in_fresh_processes(commands, rounds=max(1, effort.rounds // 8))
    ratio = measured.of(
        lambda at: (at["statebox"] - at["nothing"]) / (at["primitives"] - at["nothing"])
    )
    yield Row(IMPORT, "in a fresh process", ratio)


def inspections(effort: Effort) -> Iterator[Row]:
    """`statebox inspect` of one token, without a keyring."""
    commands = {"inspect": inspecting(), "nothing": python("pass")}
    measured = in_fresh_processes(commands, rounds=max(1, effort.rounds // 16))
    beyond = measured.of(lambda at: (at["inspect"] - at["nothing"]) * 1000)
    yield Row(INSPECT, "one token", beyond)


def python(code: str) -> list[str]:
    """Give the command that runs some code in a fresh interpreter."""
    return [sys.executable, "-c", code]


def inspecting() -> list[str]:
    """Give the command that looks at one token."""
    token = str(sealing(box_of(A256GCM), MAP, bound=True).seal())
    return [sys.executable, "-m", "statebox", "inspect", token]


def in_fresh_processes(commands: Mapping[str, Sequence[str]], *, rounds: int) -> Rounds:
    """Run commands by turns, and measure the CPU time of each.

    Args:
        commands: What to run, by name. Each has to end with status 0.
        rounds: How often.

    Returns:
        The seconds of processor time, of user and system together.
    """
    for command in commands.values():
        cpu_seconds(command)  # so that nobody pays for writing byte code
    turns: list[Turn] = [
        {name: cpu_seconds(command) for name, command in commands.items()} for _ in range(rounds)
    ]
    return Rounds(turns)


def cpu_seconds(command: Sequence[str]) -> float:
    """Run a command to its end, and give the processor time that it took, in seconds."""
    # As installed programs run: with byte code, whatever the shell at hand says.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
