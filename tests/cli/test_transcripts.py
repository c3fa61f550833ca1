"""Whole sessions as a person sees them, in transcripts/*.txt.

A line that begins with `$ ` is a command; below it stands what it writes to stdout, then what it
writes to stderr, then `(exit N)` where that is not 0. `WRITE_TRANSCRIPTS=1 pytest` writes them anew,
for a reader to compare.
"""

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.cli.terminal import run, secret_file
from tests.cli.test_failures import ANOTHER_SECRET_RING, OTHER_SECRET, codec_token
from tests.cli.test_foreign import KEY, TYPESCRIPT
from tests.cli.tokens import CALL, RING, bound_token, message, ring_file, token
from tests.samples import NOW

FOLDER = Path(__file__).with_name("transcripts")
TRANSCRIPTS = sorted(FOLDER.glob("*.txt"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder that every transcript is played in."""
    good = bound_token()
    ring_file(tmp_path, RING, "ring.json")
    ring_file(tmp_path, ANOTHER_SECRET_RING, "other.json")
    ring_file(tmp_path, RING, "loose.json")
    (tmp_path / "loose.json").chmod(0o644)
    secret_file(tmp_path, "sdk.key", KEY)
    answer = {"jsonrpc": "2.0", "id": 7, "result": {"requestState": good}}
    wrapped = [good[at : at + 72] for at in range(0, len(good), 72)]
    other_call = {**CALL, "params": {"name": "wire_money", "arguments": {"cents": 150000}}}
    entry = {
        "request": {"postData": {"text": message(bound_token(iat=NOW - 900, exp=NOW - 300))}},
        "response": {"content": {"text": json.dumps(answer)}},
    }
    log = [
        f"2026-09-21T14:13:20Z INFO {message(good)}",
        f"2026-09-21T14:13:21Z INFO {json.dumps(answer)}",
        f"2026-09-21T14:33:20Z WARN rejected {good}",
        f"2026-09-21T14:33:21Z WARN rejected {token('2026-leak')}",
        f"2026-09-21T14:33:22Z WARN rejected {OTHER_SECRET}",
        "2026-09-21T14:33:23Z INFO 3 requests",
    ]
    files = {
        "token.txt": good,
        "signed.txt": bound_token("2026-sign"),
        "bytes.txt": token(principal=None, state={"key": b"\x01\x02"}),
        "request.json": message(good),
        "wire.json": message(good, other_call),
        "encoded.json": message(good.replace(".", "%2E")),
        "mail.txt": "\n".join(
            ["Hi,", "this one fails:", "", *(f"> {line}" for line in wrapped), ""]
        ),
        "answer.sse": f"event: message\ndata: {json.dumps(answer)}\n\n",
        "traffic.har": json.dumps({"log": {"entries": [entry]}}),
        "revoked.txt": token("2026-leak"),
        "pending.txt": token("2026-next"),
        "forged.txt": OTHER_SECRET,
        "cut.txt": good[:120],
        "codec.json": message(codec_token()),
        "typescript.txt": TYPESCRIPT,
        "server.log": "\n".join(log) + "\n",
        "nothing.txt": "no token here\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def play(script: str) -> str:
    """Run the commands of a transcript, and write it anew."""
    played: list[str] = []
    for line in script.splitlines():
        if line.startswith("#"):
            played.append(line)
        if not line.startswith("$ "):
            continue
        program, *arguments = shlex.split(line[2:])
        assert program == "statebox"
        ran = run(*arguments)
        end = f"(exit {ran.code})\n" if ran.code else ""
        played.append(f"{line}\n{ran.out}{ran.err}{end}")
    return "\n".join(played)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_a_session_goes_as_it_is_written(path: Path, desk: Path) -> None:
    script = path.read_text("utf-8")
    played = play(script).replace(f"{desk}/", "")
    if os.environ.get("WRITE_TRANSCRIPTS"):
        path.write_text(played, "utf-8")
    assert played == script


def test_there_is_a_transcript_of_each_command() -> None:
    everything = "".join(path.read_text("utf-8") for path in TRANSCRIPTS)
    for name in ("inspect", "scan", "open", "seal"):
        assert f"$ statebox {name}" in everything
