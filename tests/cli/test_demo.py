"""The demo, as `make demo` runs it: real servers, the SDK's own client, a real inspect."""

import json
import subprocess
import sys

import pytest

from statebox_cli import demo as story
from statebox_cli.main import COMMANDS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "statebox", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_flow_pauses_in_one_process_and_finishes_in_another_and_nothing_else_works() -> None:
    ran = run("--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    told = json.loads(ran.stdout)
    steps = told["steps"]
    assert told["error"] is None
    assert steps["paused"]["process"] != steps["finished"]["process"]
    assert steps["finished"]["answer"] == (
        f"refunded ORD-7001 (process {steps['finished']['process']})"
    )
    assert steps["refused"] == {
        "tampered with": "authentication",
        "expired": "expired",
        "another user's": "principal",
        "another order's": "request",
    }


def test_the_story_fits_a_narrow_screen_and_ends_well() -> None:
    ran = run()
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "Accepted" in ran.stdout
    assert lines[-1] == "Every step went as it should."


def test_a_token_that_works_where_it_must_not_ends_the_demo_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from statebox_cli.group import CommandGroup

    monkeypatch.setattr(story, "_tampered", str)
    with pytest.raises(SystemExit) as end:
        CommandGroup(COMMANDS).main(["demo", "--json"])
    assert end.value.code == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "demo"
