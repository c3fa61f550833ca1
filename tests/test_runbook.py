"""docs/runbook.md: every command of it that needs no cluster is run, as it stands there."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from statebox import Key, Keyring
from tests.cli.keys_commands import environment
from tests.samples import DAY

RUNBOOK = Path(__file__).parent.parent / "docs" / "runbook.md"


class Step(NamedTuple):
    """A command, and the lines that the page shows under it."""

    command: str
    shown: list[str]


def sections() -> dict[str, list[Step]]:
    """Read the commands of each section that has some."""
    found: dict[str, list[Step]] = {}
    for part in re.split(r"(?m)^#{2,3} ", RUNBOOK.read_text("utf-8"))[1:]:
        steps: list[Step] = []
        for block in re.findall(r"(?ms)^```console\n(.*?)^```", part):
            for line in block.splitlines():
                if line.startswith("$ "):
                    steps.append(Step(line[2:], []))
                else:
                    steps[-1].shown.append(line)
        if steps:
            found[part.splitlines()[0]] = steps
    return found


def timeless(text: str) -> str:
    """Take out what the clock decides."""
    return re.sub(r"\d+", "0", text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the ring that the page speaks of, and the command on the PATH."""
    now = int(time.time())
    before = Key.generate(kid="4hp", nbf=now - 60 * DAY)
    ring = Keyring(
        [before.replace(exp=now + 10 * DAY), Key.generate(kid="k7qf", nbf=now - 30 * DAY)]
    )
    (tmp_path / "keyring.json").touch(0o600)
    (tmp_path / "keyring.json").write_text(ring.to_json())
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "statebox"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m statebox "$@"\n')
    script.chmod(0o700)
    return tmp_path


def test_the_page_has_commands() -> None:
    assert len(sections()) >= 7


@pytest.mark.parametrize("title", sections())
def test_the_commands_of_the_runbook_do_what_it_says(title: str, folder: Path) -> None:
    variables = environment(
        PATH=f"{folder}/bin:{os.environ['PATH']}", STATEBOX_KEYRING="keyring.json"
    )
    script = "set -u\n"
    for number, step in enumerate(sections()[title]):
        script += f"{{ {step.command.split('  #')[0]}\n}} 2> err{number}; echo $? > code{number}\n"
    subprocess.run(["bash", "-c", script], cwd=folder, env=variables, check=True)
    for number, step in enumerate(sections()[title]):
        code = int((folder / f"code{number}").read_text())
        err = (folder / f"err{number}").read_text()
        assert code == (9 if step.shown else 0), (step.command, err)
        for line in step.shown:
            assert timeless(line) in timeless(err)


def test_a_command_that_fails_leaves_the_ring_in_the_variable(folder: Path) -> None:
    (folder / "bin" / "statebox").write_text("#!/bin/sh\nexit 8\n")
    steps = [step.command for step in sections()["A variable"] if "RING=" in step.command]
    assert len(steps) == 2
    for step in steps:
        script = f'{step}\ncode=$?; printf "%s %s" "$code" "$RING"'
        variables = environment(PATH=f"{folder}/bin:{os.environ['PATH']}", RING="the only one")
        ran = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=variables, check=True, stdout=subprocess.PIPE
        )
        assert ran.stdout == b"8 the only one"


@pytest.mark.parametrize(("code", "stored"), [(0, "ring"), (9, "the only one")])
def test_a_command_that_fails_leaves_the_ring_in_the_manager(
    folder: Path, code: int, stored: str
) -> None:
    (recipe,) = [
        block
        for block in re.findall(r"(?ms)^```sh\n(.*?)^```", RUNBOOK.read_text("utf-8"))
        if "vault kv put" in block
    ]
    (folder / "stored").write_text("the only one")
    (folder / "bin" / "statebox").write_text(f"#!/bin/sh\nprintf ring; exit {code}\n")
    vault = folder / "bin" / "vault"
    vault.write_text('#!/bin/sh\ncat "${4#ring=@}" > stored\n')
    vault.chmod(0o700)
    variables = environment(PATH=f"{folder}/bin:{os.environ['PATH']}")
    ran = subprocess.run(["bash", "-c", recipe], cwd=folder, env=variables, check=False)
    assert (ran.returncode, (folder / "stored").read_text()) == (code, stored)


def test_no_block_that_is_pasted_destroys_a_ring() -> None:
    for steps in sections().values():
        for step in steps:
            assert not re.search(r"\brm\b|\bshred\b", step.command), step.command
            assert "init" not in step.command or "--force" not in step.command, step.command


def test_the_lines_of_logging_show_which_kids_were_read(folder: Path) -> None:
    lines = "\n".join(re.findall(r"(?m)^logging\..*", RUNBOOK.read_text("utf-8")))
    program = f"import logging\n{lines}\nfrom statebox.sources import open_source\n"
    program += "source = open_source('file:keyring.json')\n"
    program += "from statebox.files import locked\n"
    program += "with locked('keyring.json') as file: file.replace(open('other').read().encode())\n"
    program += "source.reread()\n"
    (folder / "other").write_text(Keyring([Key.generate(kid="new")]).to_json())
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment(),
        check=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ran.stderr.startswith("INFO:statebox.sources:")
    assert ran.stderr.endswith("gave keys new\n")


def test_no_recipe_pipes_a_ring_into_the_place_it_came_from() -> None:
    page = RUNBOOK.read_text("utf-8")
    for block in re.findall(r"(?ms)^ *```(?:sh|console)\n(.*?)^ *```", page):
        assert not re.search(r"statebox keys [^\n&>]*\||export \w+=\"\$\(", block)
