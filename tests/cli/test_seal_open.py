"""Tokens made and opened by hand are those that the library makes and opens."""

import json
from pathlib import Path

import pytest

from statebox import Keyring, Statebox
from tests.cli.terminal import Ran, run
from tests.cli.tokens import CALL, RING, SECOND, message, ring_file
from tests.samples import NOW, key, maker
from tests.vectors.forge import payload_of


class Desk:
    """A folder with a ring in it, and the two commands with their usual options."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ring = ring_file(folder)

    def file(self, name: str, content: str) -> str:
        (self.folder / name).write_text(content)
        return str(self.folder / name)

    def seal(self, state: str, *options: str) -> Ran:
        return run("seal", *self._given(), *options, stdin=state)

    def open(self, token: str, *options: str) -> Ran:
        return run("open", *self._given(), *options, stdin=token)

    def _given(self) -> tuple[str, ...]:
        return ("--keyring", self.ring, "--audience", "billing", "--at", SECOND)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_seal_prints_the_token_and_nothing_else(desk: Desk) -> None:
    ran = desk.seal('{"step": "confirm"}')
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("sb1.")
    assert ran.out.count("\n") == 1
    assert desk.open(ran.out) == (0, '{"step": "confirm"}\n', "")


def test_the_library_opens_what_the_command_seals_and_the_reverse(desk: Desk) -> None:
    box = Statebox(RING, audience="billing", clock=lambda: NOW)
    token = desk.seal("[1, 2]", "--principal", "a", "--principal", "b").out.strip()
    assert box.open(token, principal=("a", "b"), request=None).state == [1, 2]
    token = box.seal("x", principal="alice", request=None)
    assert desk.open(token, "--principal", "alice").out == '"x"\n'
    assert desk.open(token).code == 7


def test_a_token_is_bound_to_the_request_of_a_file(desk: Desk) -> None:
    request = desk.file("request.json", json.dumps(CALL))
    other = desk.file("other.json", json.dumps({**CALL, "method": "prompts/get"}))
    token = desk.seal("1", "--request", request).out.strip()
    assert desk.open(token, "--request", request).code == 0
    assert desk.open(token, "--request", other).code == 7
    assert desk.open(token).code == 7
    again = desk.file("again.json", message(token))
    assert desk.open(token, "--request", again).code == 0


def test_json_tells_all_of_a_continuation(desk: Desk) -> None:
    token = desk.seal('{"a": 1}', "--ttl", "90s", "--max-flow-age", "5m").out.strip()
    told = desk.open(token, "--json").json
    identity = [told.pop(name) for name in ("flow", "token_id")]
    assert [len(text) for text in identity] == [16, 32]
    assert told == {
        "state": {"a": 1},
        "state_diagnostic": None,
        "audience": "billing",
        "key_id": "2026-a",
        "round": 1,
        "issued_at": NOW,
        "expires_at": NOW + 90,
        "deadline": NOW + 300,
        "error": None,
    }
    assert desk.seal("1", "--json").json.keys() == {"token", "error"}


def test_a_state_that_json_cannot_say_is_written_in_diagnostic_notation(desk: Desk) -> None:
    token = maker("2026-a").token(payload_of(state={"key": b"\x01\x02", "n": 1}))
    assert desk.open(token).out == '{"key": h\'0102\', "n": 1}\n'
    told = desk.open(token, "--json").json
    assert (told["state"], told["state_diagnostic"]) == (None, '{"key": h\'0102\', "n": 1}')


def test_a_flow_goes_on_from_a_token(desk: Desk) -> None:
    first = desk.seal("1", "--principal", "alice").out
    after = desk.file("first.txt", first)
    second = desk.seal("2", "--principal", "alice", "--after", after)
    assert second.code == 0
    rounds = [
        desk.open(text.strip(), "--principal", "alice", "--json").json
        for text in (first, second.out)
    ]
    assert [told["round"] for told in rounds] == [1, 2]
    assert rounds[0]["flow"] == rounds[1]["flow"]
    assert rounds[0]["deadline"] == rounds[1]["deadline"]
    stolen = desk.seal("2", "--principal", "bob", "--after", after, "--json")
    assert (stolen.code, stolen.json["error"]["code"]) == (7, "principal")
    assert stolen.json["token"] is None


@pytest.mark.parametrize(
    ("state", "options", "code", "error"),
    [
        ("{", [], 2, "usage"),
        ("[" * 5000, [], 2, "usage"),
        ("[" * 70 + "]" * 70, [], 3, "unsupported_state"),
        ("NaN", [], 3, "unsupported_state"),
        (json.dumps("x" * 70_000), [], 3, "too_large"),
        ("1", ["--ttl", "2h"], 2, "usage"),
        ("1", ["--ttl", "0s"], 2, "usage"),
        ("1", ["--ttl", "soon"], 2, "usage"),
        ("1", ["--audience", ""], 2, "usage"),
        ("1", ["--principal", ""], 2, "usage"),
        ("1", ["--request", "-"], 2, "usage"),
        ("1", ["--request", "/nowhere"], 2, "usage"),
        ("1", ["--at", "1960-01-01"], 2, "usage"),
        ("1", ["--at", "1"], 8, "keyring"),
    ],
)
def test_what_is_not_sealed_says_why(
    desk: Desk, state: str, options: list[str], code: int, error: str
) -> None:
    ran = desk.seal(state, *options, "--json")
    assert (ran.code, ran.json["error"]["code"], ran.json["token"]) == (code, error, None)
    assert "sb1." not in ran.out


def test_stdin_is_read_for_one_thing_only(desk: Desk) -> None:
    ran = run("open", "-", "--keyring", desk.ring, "--audience", "a", "--request", "-")
    assert (ran.code, ran.err.splitlines()[0]) == (
        2,
        "statebox: stdin can be only one of token and request",
    )
    ran = run("open", "-", "--keyring", desk.ring, "--audience", "", stdin="x")
    assert (ran.code, ran.err.startswith("statebox: audience is empty")) == (2, True)


def test_input_without_end_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statebox_cli.inputs.MAX_INPUT_BYTES", 1000)
    ran = desk.seal(" " * 1001)
    assert (ran.code, ran.err.splitlines()[0]) == (2, "statebox: - is longer than 64 MiB")


def test_an_open_that_fails_prints_no_state(desk: Desk) -> None:
    ran = desk.open("sb1.AAAA", "--json")
    assert (ran.code, ran.json["error"]["code"], ran.json["state"]) == (3, "malformed", None)
    assert desk.open("sb1.AAAA").out == ""


@pytest.mark.parametrize(
    "content", ["[1]", "{}", '{"method": 1}', '{"method": "x", "params": []}', "{"]
)
def test_a_request_file_that_is_none_is_refused(desk: Desk, content: str) -> None:
    ran = desk.seal("1", "--request", desk.file("request.json", content), "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "usage")
    assert "is not a JSON-RPC request" in ran.json["error"]["message"]


def test_variables_stand_for_options(desk: Desk) -> None:
    ring = ring_file(desk.folder, Keyring([key("now", nbf=1)]), "now.json")
    environment = {"STATEBOX_KEYRING": ring, "STATEBOX_AUDIENCE": "billing"}
    token = run("seal", stdin="1", env=environment).out
    assert run("open", stdin=token, env=environment).out == "1\n"
    assert run("inspect", "-", stdin=token, env=environment).out.count("pass") > 8
    lived = run("seal", "--json", stdin="1", env=environment | {"STATEBOX_TTL": "7s"}).json["token"]
    told = run("open", "--json", stdin=lived, env=environment).json
    assert told["expires_at"] - told["issued_at"] == 7
    strict = environment | {"STATEBOX_MAX_TOKEN_CHARS": "256"}
    assert run("inspect", "sb1." + "A" * 300, env=strict).code == 3
    elsewhere = run("open", "--audience", "refunds", stdin=token, env=environment)
    assert elsewhere.code == 7


def test_a_line_stands_for_stdin_and_nothing_else_is_an_argument(desk: Desk) -> None:
    ran = desk.seal('{"step": 1}', "-")
    assert (ran.code, desk.open(ran.out).out) == (0, '{"step": 1}\n')
    for arguments in (["SENTINEL"], ["-", "--state", desk.file("SENTINEL", "1")]):
        ran = desk.seal("1", *arguments)
        assert (ran.code, "SENTINEL" in ran.err) == (2, False)
        assert ran.err.splitlines()[1] == "hint: give --state FILE, or - for stdin"
    token = desk.file("token.txt", desk.seal("1").out)
    assert desk.seal("2", "-", "--after", "-").code == 2
    assert desk.seal("2", "-", "--after", token).code == 0


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ('{"a": 1,\n "b": SENTINEL}', ": line 2, column 7"),
        ('"\\SENTINEL"', ": line 1, column 2"),
        ("", ": line 1, column 1"),
        ("[" * 200_000, ""),
        ("1" * 5000, ""),
    ],
)
def test_a_state_that_is_not_json_is_told_by_its_place_and_never_shown(
    desk: Desk, state: str, where: str
) -> None:
    ran = desk.seal(state)
    assert ran.code == 2
    assert ran.err.splitlines()[0] == f"statebox: the state in - is not JSON{where}"
    assert "SENTINEL" not in ran.err


def test_a_state_that_is_no_text_is_told(desk: Desk) -> None:
    given = ("--keyring", desk.ring, "--audience", "billing", "-")
    ran = run("seal", *given, stdin=b'"\xff"')
    assert ran.err.splitlines()[0] == "statebox: the state in - is not JSON: it is not UTF-8"


def test_what_at_means_is_said_for_sealing_and_for_judging() -> None:
    assert "Seal as if it were then" in run("seal", "--help").out
    assert "Judge as of then" in run("open", "--help").out
