"""`kill -9` at random moments of `keys rotate`: the file is always a whole ring, and no lock is left.

    python -m tests.soak.killing --kills 200

A child forked from here rotates again and again, and is killed in the midst of it. `--command`
starts the installed command for each kill instead, which takes longer.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path

from statebox import Key, Keyring
from statebox.files import locked
from statebox_cli.group import CommandGroup
from statebox_cli.main import COMMANDS

LONGEST = 0.03  # seconds a child lives at most; a rotation takes a few milliseconds


def rotate(path: Path) -> None:
    """Rotate once, within this process."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        try:
            CommandGroup(COMMANDS).main(["keys", "rotate", "--keyring", str(path)])
        except SystemExit as end:
            if end.code:
                raise RuntimeError("rotate failed") from None


def child(path: Path, *, command: bool) -> int:
    """Start who rotates, and give its process id."""
    if command:
        words = [sys.executable, "-m", "statebox", "keys", "rotate", "--keyring", str(path)]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid
    pid = os.fork()
    while pid == 0:  # a kill falls into a rotation whenever it comes
        try:
            rotate(path)
        except BaseException:  # noqa: BLE001 - the child must not come back as a second parent
            os._exit(3)
    return pid


def whole(path: Path, first: Key) -> int:
    """Check that a ring is the old one or a new one, and count its keys."""
    ring = Keyring.load(path)
    kept = ring.get(first.kid)
    assert kept is not None
    assert kept.same_secret(first)
    keys = list(ring)
    for before, after in pairwise(keys):
        assert before.exp == after.nbf + ring.max_ttl + 60
    assert keys[-1].exp is None
    return len(ring)


def run(kills: int, *, command: bool = False, seed: int = 0) -> Counter[str]:
    """Kill as often as asked.

    Returns:
        How many kills came before the first change, after one, and in the midst of a write.
    """
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    longest = 1.0 if command else LONGEST
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "ring.json"
        with locked(path) as file:
            file.replace(Keyring.generate().to_json().encode())
        rotate(path)  # so that a child need not import anything
        for _ in range(kills):
            with locked(path, timeout=0) as file:  # the one killed before has left no lock
                ring = Keyring.generate()
                file.replace(ring.to_json().encode())
            pid = child(path, command=command)
            time.sleep(chance.random() * longest)
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            if not command:
                assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
            (first,) = ring
            seen["old ring" if whole(path, first) == 1 else "new ring"] += 1
            if any(entry.suffix == ".tmp" for entry in folder.iterdir()):
                seen["in the midst of a write"] += 1
        with locked(path, timeout=0):
            left = sorted(entry.name for entry in folder.iterdir())
        assert left == [".ring.json.lock", "ring.json"]
    return seen


def main() -> None:
    """Kill as asked on the command line, and tell what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", action="store_true")
    asked = parser.parse_args()
    seen = run(asked.kills, command=asked.command, seed=asked.seed)
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
