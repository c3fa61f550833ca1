"""The bounded parser reads what the library's decoder reads, and a state is written readably."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox.state import State, decode_state, encode_state
from statebox_cli.cbor_text import diagnostic, is_json, parse, state_text
from tests.states import states


@given(states)
def test_what_was_encoded_is_read_as_it_was(state: State) -> None:
    assert parse(encode_state(state)) == state


@given(st.binary())
def test_what_the_library_refuses_is_refused_or_is_no_state_of_one_encoding(data: bytes) -> None:
    try:
        known = decode_state(data)
    except ValueError:
        return
    assert parse(data) == known


@given(st.binary())
def test_any_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    try:
        state = parse(data)
    except ValueError:
        return
    assert json.dumps(state_text(state))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x81" * 66,
        b"\x9a\xff\xff\xff\xff",
        b"\xba\xff\xff\xff\xff",
        b"\x5a\xff\xff\xff\xff",
        b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x9f\x01\xff",
        b"\xc0\x60",
        b"\xf7",
        b"\xff",
        b"\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00",
        b"\xfb\x00",
        b"\xa2\x01\x01\x01\x02",
        b"\xa1\xf5\x01",
        b"\xa1\x80\x01",
        b"\x01\x01",
        b"\x61\xff",
        b"\xc2\x01",
    ],
)
def test_what_no_state_has_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(data)


def test_lengths_that_promise_too_much_cost_nothing() -> None:
    with pytest.raises(ValueError, match="ends early"):
        parse(b"\x9b" + b"\x7f" + b"\xff" * 7 + b"\x01" * 1000)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (
            {"step": "confirm", "n": [1, 2.5, None, True]},
            '{"step": "confirm", "n": [1, 2.5, null, true]}',
        ),
        ({"key": b"\x01\xff"}, "{\"key\": h'01ff'}"),
        ({1: "a", "b": 2}, '{1: "a", "b": 2}'),
        ([b""], "[h'']"),
        ("\x1b[31m\u202e", '"\\u001b[31m\\u202e"'),
        (1 << 64, "18446744073709551616"),
        (1 << 20_000, f"2(h'01{'00' * 2500}')"),
        (-1 - (1 << 20_000), f"3(h'01{'00' * 2500}')"),
    ],
    ids=["json", "bytes", "number key", "empty", "escapes", "big", "too big", "too small"],
)
def test_a_state_is_json_where_json_can_say_it_and_diagnostic_notation_where_not(
    state: State, text: str
) -> None:
    assert state_text(state) == text


@given(states)
def test_json_is_chosen_only_where_it_gives_the_state_back(state: State) -> None:
    if is_json(state):
        assert json.loads(state_text(state)) == state
    assert diagnostic(state).isascii()
