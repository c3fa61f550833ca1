"""What ends an interpreter elsewhere: tried in a process of its own, so that it could end."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_hostile_call_ends_the_process_or_raises_what_is_not_documented() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.hostile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    calls = re.fullmatch(r"(\d+) calls\n", done.stdout)
    assert calls is not None
    assert int(calls[1]) > 500
