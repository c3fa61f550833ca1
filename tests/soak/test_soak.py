"""The runs of this folder, as long as CI can wait; `make soak` lets them take their time."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.keys_commands import environment

ROOT = Path(__file__).parent.parent.parent


def run(module: str, *arguments: str) -> dict[str, Any]:
    """Run one of them in a process of its own, and return what it tells."""
    command = [sys.executable, "-m", f"tests.soak.{module}", *arguments]
    ran = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def test_eight_replicas_reject_no_valid_token_while_the_ring_rotates_fifty_times() -> None:
    """Every clock goes 20 times as fast, so that each key but the last comes to its end."""
    told = run("rotation", "--speed", "20", "--every", "2", "--ttl", "30")
    assert told["faults"] == {}
    assert told["opened"] > 1000
    assert told["kids"] > 10
    assert told["refused_after_their_date"] > 10


def test_two_hundred_rotations_that_are_killed_leave_a_whole_ring_and_no_lock() -> None:
    told = run("killing", "--kills", "200")
    assert told["old ring"] + told["new ring"] == 200
    assert told["in the midst of a write"] > 0
