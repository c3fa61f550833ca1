"""scan sums up logs of any size, each token as of its own line, and tells nothing of them."""

import csv
import gzip
import io
import json
import os
import pty
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox import Keyring, Request
from statebox_cli.judging import Context
from statebox_cli.sieve import BLOCK, hits_in
from statebox_cli.tally import Tally
from statebox_cli.verdict import judge
from tests.cli.terminal import ROOT, run, spawn
from tests.cli.test_failures import WAYS, codec_token
from tests.cli.tokens import RING, SECOND, bound_token, message, ring_file, token
from tests.samples import NOW
from tests.vectors.independent import VECTORS

TOKEN = bound_token()


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def scan(text: str, *options: str) -> dict[str, Any]:
    ran = run("scan", "-", "--json", *options, stdin=text)
    assert ran.code == 0
    told: dict[str, Any] = ran.json
    return told


def counts(told: dict[str, Any], table: str) -> dict[tuple[str, ...], int]:
    """Give the rows of a table by what they count."""
    return {
        tuple(value for name, value in row.items() if name not in ("tokens", "example")): row[
            "tokens"
        ]
        for row in told[f"by_{table}"]
    }


def test_tokens_are_summed_up_by_key_verdict_tool_and_age(tmp_path: Path) -> None:
    log = "\n".join(
        [
            f"{stamp(NOW)} INFO {message(TOKEN)}",
            f"{stamp(NOW + 3600)} INFO {message(TOKEN)}",
            f'{{"ts": {NOW}, "msg": "state {token("2026-old")}"}}',
            f"{stamp(NOW)} WARN requestState={token('2026-leak')}",
            f"{stamp(NOW)} WARN {codec_token()}",
            f"{stamp(NOW)} no token here, v1.api.example-host-name-that-is-long.com",
        ]
    )
    told = scan(log, "--keyring", ring_file(tmp_path), "--audience", "billing")
    assert (told["tokens"], told["bytes"], told["error"]) == (5, len(log), None)
    assert counts(told, "key") == {
        ("2026-a", "active"): 2,
        # An hour later 2026-next has taken over.
        ("2026-a", "verifying"): 1,
        ("2026-old", "verifying"): 1,
        ("2026-leak", "revoked"): 1,
    }
    assert counts(told, "verdict") == {("accepted",): 3, ("expired",): 1, ("revoked_key",): 1}
    assert counts(told, "tool") == {
        ("tools/call", "refund"): 3,
        ("(no request)", ""): 1,
        ("(unknown)", ""): 1,
    }
    assert counts(told, "age") == {("under 10 min",): 3, ("under 1 d",): 1, ("(unknown)",): 1}


@pytest.mark.parametrize(
    "head",
    [
        stamp(NOW),
        "2026-09-21 14:13:20.123",
        "2026-09-21T16:13:20,5+02:00",
        f"{NOW}.5",
        f'{{"time": {NOW}123, "msg": "',
        f'{{"level": "info", "timestamp": "{stamp(NOW)}", "msg": "',
    ],
    ids=["iso", "blank", "zone", "epoch", "milliseconds", "json"],
)
def test_a_token_is_judged_as_of_the_time_of_its_line(head: str, tmp_path: Path) -> None:
    given_ring = ("--keyring", ring_file(tmp_path))
    assert counts(scan(f"{head} {TOKEN}\n", *given_ring), "verdict") == {("accepted",): 1}
    # With --at all of them as of then, whatever their lines say.
    then = str(NOW + 86_400)
    told = scan(f"{head} {TOKEN}\n", *given_ring, "--at", then)
    assert counts(told, "verdict") == {("expired",): 1}
    assert counts(scan(f"x {TOKEN}", *given_ring, "--at", SECOND), "verdict") == {("accepted",): 1}


def test_a_line_with_an_impossible_time_is_judged_as_of_now(tmp_path: Path) -> None:
    log = f"2026-13-45T99:00:00Z {TOKEN}"
    told = scan(log, "--keyring", ring_file(tmp_path), "--at", SECOND)
    assert counts(told, "verdict") == {("accepted",): 1}
    assert [hit.when for hit in hits_in(io.BytesIO(log.encode()), lambda _: None)] == [None]


def test_what_only_looks_like_a_token_of_another_sdk_is_not_counted() -> None:
    log = "v1.some-long-name-that-is-none.of-ours rs1.AAAAAAAAAAAAAAAAAAAA.AAAA.AAAA"
    assert scan(log)["tokens"] == 0


def test_without_a_keyring_nothing_is_verified() -> None:
    told = scan(f"{TOKEN} {bound_token('2026-sign')}\n{TOKEN[:100]}\nv1.{'A' * 100}")
    assert counts(told, "verdict") == {("not verified",): 3, ("malformed",): 1}
    assert counts(told, "key") == {
        ("2026-a", "-"): 2,
        ("2026-sign", "-"): 1,
        ("python-sdk-v1", "-"): 1,
    }


def test_no_token_is_printed_unless_it_is_asked_for(tmp_path: Path) -> None:
    log = f"{TOKEN}\n{token('2026-leak')}\n"
    given = ("scan", "-", "--keyring", ring_file(tmp_path), "--at", SECOND)
    for options in ([], ["--json"], ["--csv"]):
        ran = run(*given, *options, stdin=log)
        assert ran.code == 0
        assert "sb1." not in ran.out + ran.err
        assert TOKEN in run(*given, *options, "--show-tokens", stdin=log).out


def test_csv_is_one_table_that_no_spreadsheet_runs(tmp_path: Path) -> None:
    formula = token(request=Request("tools/call", "=HYPERLINK(1)"))
    ran = run("scan", "-", "--keyring", ring_file(tmp_path), "--csv", "--at", SECOND, stdin=formula)
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert rows[0].keys() == {"by", "what", "detail", "tokens", "example"}
    assert {(row["by"], row["what"], row["detail"], row["tokens"]) for row in rows} == {
        ("key", "2026-a", "active", "1"),
        ("verdict", "accepted", "", "1"),
        ("tool", "tools/call", "'=HYPERLINK(1)", "1"),
        ("age", "under 10 min", "", "1"),
    }


def test_a_person_reads_tables_of_80_columns(tmp_path: Path) -> None:
    long = token(request=Request("tools/call", "n" * 300))
    ran = run(
        "scan", "-", "--keyring", ring_file(tmp_path), "--at", SECOND, stdin=f"{TOKEN} {long}"
    )
    assert ran.out.splitlines()[:5] == [
        f"2 requestStates in {len(TOKEN) + len(long) + 1} bytes",
        "",
        "by key",
        f"  {'2026-a active':<64} {'2':>12}",
        "",
    ]
    assert max(map(len, ran.out.splitlines())) <= 80


def test_several_files_are_one_sum(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text(f"{TOKEN}\n")
    ran = run("scan", str(tmp_path / "a.log"), str(tmp_path / "b.log"), "--json")
    assert ran.json["tokens"] == 2
    ran = run("scan", str(tmp_path / "a.log"), str(tmp_path / "none.log"), "--json")
    assert (ran.code, ran.json["error"]["code"], ran.json["tokens"]) == (2, "usage", 0)
    assert run("scan", "-", "--csv", "--json").code == 2


@pytest.mark.parametrize("command", ["scan", "inspect"])
def test_gzip_is_refused_with_the_command_that_unpacks_it(command: str, tmp_path: Path) -> None:
    packed = tmp_path / "a.log.gz"
    packed.write_bytes(gzip.compress(f"{TOKEN}\n".encode()))
    ran = run(command, str(packed), "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "usage")
    assert ran.json["error"]["message"] == f"{packed} looks like gzip"
    assert ran.json["error"]["hint"] == f"Run `zcat {packed} | statebox {command} -`."
    ran = run(command, "-", stdin=packed.read_bytes())
    assert (ran.code, "zcat FILE" in ran.err) == (2, True)


def test_a_scan_that_finds_nothing_says_so() -> None:
    assert "no requestState was found" in run("scan", "-", "--json", stdin="a log\n").err
    assert run("scan", "-", "--json", stdin=TOKEN).err == ""


@pytest.mark.parametrize(
    "name", [name for name, way in WAYS.items() if way.text.startswith("sb1.")]
)
def test_scan_and_inspect_agree(name: str) -> None:
    text = WAYS[name].text
    verdict = judge(text, [RING], Context(now=NOW, audience="billing"))
    tally = Tally(RING, "billing")
    tally.add(text, NOW)
    assert list(tally.verdicts) == [(verdict.problem.code if verdict.problem else "accepted",)]


def test_scan_and_inspect_agree_on_every_vector() -> None:
    file = json.loads(VECTORS.read_text("utf-8"))
    ring = Keyring.from_jwks(file["keyring"])
    for case in file["cases"]:
        if not case["token"].startswith("sb1."):
            continue
        context = Context(now=case["now"], audience=case["audience"])
        problem = judge(case["token"], [ring], context).problem
        tally = Tally(ring, case["audience"])
        tally.add(case["token"], case["now"])
        assert list(tally.verdicts) == [(problem.code if problem else "accepted",)], case["name"]


class Chunks(io.RawIOBase):
    """A stream that gives what it has in pieces of odd sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = io.BytesIO(data)
        self._sizes = sizes

    def read(self, size: int = -1) -> bytes:
        self._sizes.append(self._sizes.pop(0))
        return self._data.read(min(self._sizes[0], size))


@given(
    st.lists(
        st.sampled_from([TOKEN, "x" * 90, "\n", " ", "2026-09-21T14:13:20Z ", '"', "é"]),
        max_size=40,
    ),
    st.lists(st.integers(1, 400), min_size=1, max_size=8),
)
def test_where_a_block_ends_makes_no_difference(words: list[str], sizes: list[int]) -> None:
    data = "".join(words).encode()
    whole = Counter(hits_in(io.BytesIO(data), lambda _: None))
    assert Counter(hits_in(Chunks(data, sizes), lambda _: None)) == whole  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [b"\n", b" "], ids=["lines", "one line"])
def test_a_token_that_lies_across_blocks_is_found_once(end: bytes) -> None:
    for shift in (0, 1, 50, len(TOKEN) - 1, len(TOKEN)):
        data = b"x" * (BLOCK - shift - 1) + end + TOKEN.encode() + end + b"y" * 100
        assert [hit.token for hit in hits_in(io.BytesIO(data), lambda _: None)] == [TOKEN]


def test_a_token_far_along_its_line_has_the_time_of_the_line() -> None:
    for start in ("", f"{stamp(NOW - 9)} another line\n"):
        for words in (10, BLOCK // 4, BLOCK * 2):
            line = f"{stamp(NOW)} {'x ' * words}{TOKEN} {'y ' * words}{TOKEN}\n"
            data = f"{start}{line}no time {TOKEN}\n{stamp(NOW + 5)} {TOKEN}".encode()
            hits = list(hits_in(io.BytesIO(data), lambda _: None))
            assert [hit.when for hit in hits] == [NOW, NOW, None, NOW + 5]


def test_a_line_of_many_tokens_is_scanned_to_its_end() -> None:
    # Where each looks for the start of the line, this takes the square of the length.
    line = f"{stamp(NOW)} " + f"sb1.{'A' * 16} " * 300_000
    assert sum(hit.when == NOW for hit in hits_in(io.BytesIO(line.encode()), lambda _: None)) == (
        300_000
    )


def peak_of(status: str) -> int:
    """Read the most memory that a process had, in kilobytes."""
    return int(status.partition("VmHWM:")[2].split()[0])


def test_a_log_of_any_size_takes_no_more_memory_than_a_small_one() -> None:
    program = (
        "import sys\n"
        "from statebox_cli.main import main\n"
        "try: main()\n"
        "finally: print(open('/proc/self/status').read(), file=sys.stderr)"
    )
    lines = f"{stamp(NOW)} {TOKEN}\n".encode() + b"another line of a log\n" * (BLOCK // 22)
    for piece in (lines, b"A" * BLOCK, b"sb1." + b"A" * BLOCK):
        small, large = (
            spawn("scan", "-", "--json", stdin=piece * pieces, command=program)
            for pieces in (4, 48)
        )
        assert (small.code, large.code) == (0, 0)
        assert peak_of(large.err) - peak_of(small.err) < 8 * 1024


def test_a_bar_shows_the_progress_on_a_terminal_only(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"{TOKEN}\n" * 2000)
    assert spawn("scan", str(log)).err == ""
    master, slave = pty.openpty()
    paths = os.pathsep.join([str(ROOT), str(ROOT / "cli")])
    ran = subprocess.run(
        [sys.executable, "-m", "statebox", "scan", str(log), "--json"],
        stdout=subprocess.PIPE,
        stderr=slave,
        check=True,
        env={**os.environ, "PYTHONPATH": paths, "TERM": "xterm"},
    )
    os.close(slave)
    assert b"scanning" in os.read(master, 65536)
    os.close(master)
    assert json.loads(ran.stdout)["tokens"] == 2000


@given(st.binary(max_size=2000))
def test_any_bytes_are_scanned(data: bytes) -> None:
    tally = Tally(RING, None)
    for hit in hits_in(io.BytesIO(data), lambda _: None):
        tally.add(hit.token, hit.when or 0)
    assert tally.tokens == sum(tally.verdicts.values()) == sum(tally.keys.values())


def test_a_table_has_an_end_whatever_clients_write() -> None:
    tally = Tally(None, None)
    for number in range(1200):
        tally.add(token(f"k{number}", principal=None), 0)
    assert len(tally.keys) <= 1001
    assert tally.keys["(others)", ""] == 200
