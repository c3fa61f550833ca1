"""A requestState is found wherever a person has it, and it is said where."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox_cli.find import Call, Found, find
from tests.cli.terminal import run
from tests.cli.tokens import CALL, SECOND, bound_token, message, ring_file, token

TOKEN = bound_token()
SECOND_TOKEN = token()
ANSWER = {
    "jsonrpc": "2.0",
    "id": 7,
    "result": {"resultType": "input_required", "requestState": TOKEN},
}


def found_in(text: str) -> list[tuple[str, str]]:
    return [(found.text, found.where) for found in find(text.encode())]


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        f"{TOKEN}\n",
        f'"{TOKEN}"',
        f"'{TOKEN}',",
        f"`{TOKEN}`",
        f"“{TOKEN}”",
        f"<{TOKEN}>\r\n",
    ],
    ids=["bare", "newline", "quoted", "single", "backticks", "smart", "crlf"],
)
def test_a_token_by_itself_is_the_whole_input(text: str) -> None:
    assert found_in(text) == [(TOKEN, "the whole input")]


def test_a_request_gives_its_token_and_the_call_to_compare_with() -> None:
    (found,) = find(message(TOKEN).encode())
    assert found == Found(
        TOKEN,
        "params.requestState of a JSON-RPC request",
        (),
        Call("tools/call", {**CALL["params"], "requestState": TOKEN}),
    )


def test_an_answer_gives_its_token_and_no_call() -> None:
    (found,) = find(json.dumps(ANSWER).encode())
    assert found == Found(TOKEN, "result.requestState of a JSON-RPC response")


def test_a_batch_gives_each_token_with_its_own_call() -> None:
    other = {**CALL, "params": {"name": "other", "requestState": SECOND_TOKEN}}
    founds = find(json.dumps([json.loads(message(TOKEN)), other]).encode())
    assert [(found.text, found.call and found.call.params["name"]) for found in founds] == [
        (TOKEN, "refund"),
        (SECOND_TOKEN, "other"),
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_http_message_is_looked_through(newline: str) -> None:
    head = newline.join(["POST /mcp HTTP/1.1", "Host: a.example", "", ""])
    (found,) = find((head + message(TOKEN)).encode())
    assert found.where == ("the body of an HTTP request: params.requestState of a JSON-RPC request")
    assert found.call is not None
    head = newline.join(["HTTP/1.1 200 OK", "Content-Type: application/json", "", ""])
    assert found_in(head + json.dumps(ANSWER)) == [
        (TOKEN, "the body of an HTTP response: result.requestState of a JSON-RPC response")
    ]


def test_sse_events_are_looked_through_each_with_all_its_lines() -> None:
    pretty = json.dumps(ANSWER, indent=1)
    line = 4 + len(pretty.splitlines())
    lines = "".join(f"data: {line}\n" for line in pretty.splitlines())
    stream = f"event: message\nid: 4\n{lines}\ndata: {message(SECOND_TOKEN)}\n\n"
    assert found_in(stream) == [
        (TOKEN, "an SSE event (line 3): result.requestState of a JSON-RPC response"),
        (
            SECOND_TOKEN,
            f"an SSE event (line {line}): params.requestState of a JSON-RPC request",
        ),
    ]


@pytest.mark.parametrize(
    ("line", "where"),
    [
        (f"12:00 INFO sealed {TOKEN} for alice", "line 2: a token"),
        (f"lvl=info requestState={TOKEN} round=2", "line 2: a requestState"),
        (f"params={{'request_state': '{TOKEN}'}}", "line 2: a requestState"),
        (f"got {message(TOKEN)}", "line 2: params.requestState of a JSON-RPC request"),
        (
            json.dumps({"level": "info", "body": message(TOKEN)}),
            "line 2: body: params.requestState of a JSON-RPC request",
        ),
        (f"{{broken {json.dumps(message(TOKEN))}", "line 2: a requestState"),
    ],
    ids=["text", "logfmt", "repr", "json", "json in json", "broken json"],
)
def test_a_line_of_a_log_is_looked_through(line: str, where: str) -> None:
    assert found_in(f"first line\n{line}\nlast line\n") == [(TOKEN, where)]


def test_a_har_file_gives_both_sides_of_each_entry() -> None:
    body = base64.b64encode(json.dumps(ANSWER).encode()).decode()
    entries: list[Any] = [
        {"request": {"method": "GET"}, "response": {"content": {}}},
        {
            "request": {"postData": {"text": message(SECOND_TOKEN)}},
            "response": {"content": {"text": body, "encoding": "base64"}},
        },
        {"request": None, "response": {"content": {"text": "A", "encoding": "base64"}}},
        "not an entry",
    ]
    assert found_in(json.dumps({"log": {"version": "1.2", "entries": entries}})) == [
        (SECOND_TOKEN, "HAR entry 2, request: params.requestState of a JSON-RPC request"),
        (TOKEN, "HAR entry 2, response: result.requestState of a JSON-RPC response"),
    ]


def test_a_token_that_a_mail_program_wrapped_is_joined() -> None:
    lines = [TOKEN[:76], TOKEN[76:152], TOKEN[152:]]
    (found,) = find("\n".join(["Hi,", "", "here it is:", *lines, "", "Regards"]).encode())
    assert (found.text, found.where, found.damage) == (TOKEN, "line 4: a token", ("line wraps",))
    (found,) = find("\n".join(["> Hi,", *(f"> {line}" for line in lines), "> Bye"]).encode())
    assert (found.text, found.damage) == (TOKEN, ("line wraps",))


@pytest.mark.parametrize("depth", [1, 4, 5, 9])
def test_json_in_strings_is_looked_through_and_beyond_some_depth_searched(depth: int) -> None:
    text = message(TOKEN)
    for _ in range(depth):
        text = json.dumps({"body": text})
    (found,) = find(text.encode())
    assert found.text == TOKEN
    # Only what was parsed gives the request to compare with.
    assert (found.call is not None) == (depth <= 4)


REQUEST = json.loads(message(TOKEN))
OTHER = {**REQUEST, "params": {**REQUEST["params"], "arguments": {"order": "B"}}}


def test_the_same_token_is_found_once() -> None:
    assert found_in(f"{json.dumps(ANSWER)}\n{json.dumps(ANSWER)}\n") == [
        (TOKEN, "line 1: result.requestState of a JSON-RPC response")
    ]


def test_a_token_in_an_answer_and_a_request_is_the_one_of_the_request() -> None:
    where = [(TOKEN, "line 2: params.requestState of a JSON-RPC request")]
    answer, request = json.dumps(ANSWER), message(TOKEN)
    assert found_in(f"{answer}\n{request}\n{answer}\n{request}\n") == where
    (found,) = find(f"{answer}\n{request}\n".encode())
    assert found.call == Call("tools/call", REQUEST["params"])


def test_a_token_with_two_requests_is_found_with_each() -> None:
    retried = {**REQUEST, "id": 9}
    founds = find(json.dumps([ANSWER, REQUEST, OTHER, retried]).encode())
    assert [found.text for found in founds] == [TOKEN, TOKEN]
    assert [found.call and found.call.params for found in founds] == [
        REQUEST["params"],
        OTHER["params"],
    ]


def test_a_token_in_a_har_file_is_found_with_the_request_that_follows_the_answer() -> None:
    entries: list[Any] = [
        {"request": {}, "response": {"content": {"text": json.dumps(ANSWER)}}},
        {"request": {"postData": {"text": json.dumps(OTHER)}}, "response": {}},
    ]
    (found,) = find(json.dumps({"log": {"entries": entries}}).encode())
    assert found.call == Call("tools/call", OTHER["params"])


def test_of_many_requests_each_other_one_is_found() -> None:
    calls = [{**OTHER["params"], "arguments": {"order": n % 50}} for n in range(500)]
    lines = [json.dumps({**OTHER, "params": params}) for params in calls]
    founds = find("\n".join(lines).encode())
    assert [found.call and found.call.params for found in founds] == calls[:50]


def test_inspect_judges_a_token_with_the_request_that_follows_its_answer(tmp_path: Path) -> None:
    ring = ring_file(tmp_path)
    log = f"{json.dumps(ANSWER)}\n{json.dumps(OTHER)}\n"
    options = ("--keyring", ring, "--audience", "billing", "--principal", "alice", "--json")
    ran = run("inspect", "-", *options, "--at", SECOND, stdin=log)
    assert (ran.code, ran.json["error"]["code"]) == (7, "request")
    log = f"{json.dumps(ANSWER)}\n{json.dumps(REQUEST)}\n{json.dumps(OTHER)}\n"
    ran = run("inspect", "-", *options, "--at", SECOND, stdin=log)
    assert (ran.code, ran.json["error"]["code"], len(ran.json["tokens"])) == (7, "request", 2)


def test_a_request_as_deep_as_the_parser_goes_is_found() -> None:
    for depth in range(800, 1000, 7):
        deep = (
            f'{{"method":"m","params":{{"requestState":"{TOKEN}","a":{"[" * depth}{"]" * depth}}}}}'
        )
        assert {found.text for found in find(deep.encode())} == {TOKEN}


def test_what_powershell_writes_is_read() -> None:
    assert [found.text for found in find(f"{TOKEN}\r\n".encode("utf-16"))] == [TOKEN]


def test_a_value_in_a_message_is_taken_as_it_is() -> None:
    assert found_in(message(f" {TOKEN}\n"))[0][0] == f" {TOKEN}\n"


def test_a_value_that_is_no_string_is_shown_as_json() -> None:
    assert found_in(message({"step": 2})) == [
        ('{"step": 2}', "params.requestState, which is no string")
    ]
    assert found_in(message(None)) == []


def test_a_single_word_is_taken_for_a_token_and_other_text_is_not() -> None:
    assert found_in("hello") == [("hello", "the whole input")]
    assert found_in('"hello world"') == [("hello world", "a JSON string")]
    for text in ("", " \n", "hello world", "{}", '{"a": {"b": 1}}'):
        assert found_in(text) == []


def test_a_place_with_a_long_name_is_shortened() -> None:
    (found,) = find(json.dumps({"x" * 5000: {"requestState": TOKEN}}).encode())
    assert len(found.where) == 200


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        f'x {"[" * 50_000} requestState="aaaaaaaaaaaa"',
        '{"requestState":' * 2000 + '"x"' + "}" * 2000,
        "data: {\n" * 20_000,
        f"{TOKEN[:80]}\n" * 3000,
        "a" + "\\" * 1_000_000 + "b",
        json.dumps("\\" * 500_000),
        "a" + " " * 1_000_000 + "b\nc",
        "requestState" + "\\" * 1_000_000 + " b\nc d",
        f"requestState={' ' * 1_000_000}b\nc d",
        "requestState " * 80_000,
        f"HTTP/{'1' * 1_000_000}",
        "\n".join([TOKEN[:80], *["A" * 500] * 2000]),
        f"{TOKEN[:80]}\n{' ' * 1_000_000}!\n",
        "sb1." * 250_000,
        f"{TOKEN} " * 3000,
    ],
    ids=[
        *("arrays", "objects", "line", "nested", "sse", "cut", "backslashes", "in json", "blanks"),
        *("member", "value", "members", "http", "wrapped", "indented", "prefixes", "many"),
    ],
)
def test_hostile_text_is_read_to_its_end(text: str) -> None:
    for found in find(text.encode()):
        assert found.where


@given(st.binary())
def test_any_bytes_are_looked_through(data: bytes) -> None:
    for found in find(data):
        assert found.where


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_token_between_blanks_is_found_in_any_line(before: str, after: str) -> None:
    if "\n" in before or "requeststate" in before.lower():
        before = ""
    assert any(
        found.text.startswith(TOKEN)
        for found in find(f"{before} {TOKEN} {after}".encode("utf-8", "replace"))
    )
