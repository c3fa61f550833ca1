"""One encoding for every state, the same rules in both directions."""

import struct
from collections import OrderedDict
from enum import IntEnum
from typing import Any, cast

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statebox.cbor import MAX_DEPTH, head
from statebox.state import State, UnsupportedValueError, decode_state, encode_state
from tests.states import nested, states
from tests.vectors import plain_cbor
from tests.work import calls, with_room_for


@given(state=states)
@example(state=-0.0)
@example(state=[1.7976931348623157e308, -1.7976931348623157e308, 5e-324])
@example(state={"b": 1, "a": 2, 1: 3, "": 4})
@example(state={1: None, "1": None, -1: None, 1 << 64: None, -1 - (1 << 64): None})
def test_any_state_is_encoded_as_the_format_page_says_and_comes_back_the_same(state: State) -> None:
    """`repr`, for `==` cannot tell 1 from True and 1.0, nor one order of a map from another."""
    encoded = encode_state(state)
    assert encoded == plain_cbor.encode(state)
    assert repr(decode_state(encoded)) == repr(state)


@st.composite
def nearly_states(draw: st.DrawFn) -> bytes:
    """Draw the encoding of a state with one byte replaced or added, or any bytes."""
    good = draw(states.map(encode_state))
    at = draw(st.integers(0, len(good)))
    return good[:at] + draw(st.binary(max_size=1)) + good[at + draw(st.integers(0, 1)) :]


@given(data=st.binary(max_size=60) | nearly_states())
@example(data=b"\xf8\xff")
@example(data=b"\xa1\xf7\x00")
@example(data=b"")
def test_whatever_decodes_encodes_to_itself_and_nothing_but_a_value_error_comes_out(
    data: bytes,
) -> None:
    try:
        state = decode_state(data)
    except ValueError:
        return
    assert encode_state(state) == data
    assert plain_cbor.encode(state) == data


@given(data=st.binary(max_size=24))
def test_both_implementations_take_the_same_bytes_for_a_state(data: bytes) -> None:
    reader = plain_cbor.Reader(data)
    try:
        theirs = repr(reader.state())
        reader.end()
    except plain_cbor.RefusedError:
        theirs = "refused"
    try:
        ours = repr(decode_state(data))
    except ValueError:
        ours = "refused"
    assert ours == theirs


class Colour(IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


class Number(float):
    __slots__ = ()


UNSUPPORTED: dict[str, tuple[object, str, str]] = {
    "a set": ({1}, "$", "type set"),
    "a tuple": ((1,), "$", "type tuple"),
    "a bytearray": (bytearray(b"x"), "$", "type bytearray"),
    "a kind of int": (Colour.RED, "$", "type Colour"),
    "a kind of text": (Text("x"), "$", "type Text"),
    "a kind of float": (Number(1.5), "$", "type Number"),
    "a kind of map": (OrderedDict(a=1), "$", "type OrderedDict"),
    "an object": (object(), "$", "type object"),
    "NaN": (float("nan"), "$", "not finite"),
    "infinity": (float("-inf"), "$", "not finite"),
    "NaN in a list": ([0, [1, float("nan")]], "$[1][1]", "not finite"),
    "in a map": ({"items": [1, 2, {3}]}, "$.items[2]", "type set"),
    "under a key of no identifier": ({"a b": {"c": ()}}, "$[a key].c", "type tuple"),
    "under a number": ({7: {-8: ()}}, "$[7][-8]", "type tuple"),
    "under a huge number": ({10**5000: ()}, "$[a number beyond 64 bits]", "type tuple"),
    "under a long key": ({"k" * 5000: ()}, "$[a key]", "type tuple"),
    "a key that is a float": ({"a": {1.5: 1}}, "$.a", "key of type float"),
    "a key that is a bool": ({True: 1}, "$", "key of type bool"),
    "a key that is null": ({None: 1}, "$", "key of type NoneType"),
    "a key that is bytes": ({b"k": 1}, "$", "key of type bytes"),
    "a key that is a kind of text": ({Text("k"): 1}, "$", "key of type Text"),
    "a lone surrogate": ("\ud800", "$", "lone surrogate"),
    "a lone surrogate in a list": (["a", "\udfff"], "$[1]", "lone surrogate"),
    "a lone surrogate as a key": ({"a": {"\udc00": 1}}, "$.a[a key]", "lone surrogate"),
    "a lone surrogate under a key": ({"a": {"b": "\udc00"}}, "$.a.b", "lone surrogate"),
    "a lone surrogate under a huge number": (
        {10**5000: "\ud800"},
        "$[a number beyond 64 bits]",
        "lone surrogate",
    ),
}


@pytest.mark.parametrize(("value", "path", "problem"), UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_what_no_token_carries_is_refused_with_the_path_to_it(
    value: object, path: str, problem: str
) -> None:
    with pytest.raises(UnsupportedValueError) as caught:
        encode_state(cast("State", value))
    assert caught.value.path == path
    assert problem in caught.value.problem


@pytest.mark.parametrize("kind", ["list", "dict", "both"])
def test_a_state_may_be_64_levels_deep_and_no_deeper(kind: str) -> None:
    deepest = nested(MAX_DEPTH, kind)
    assert decode_state(encode_state(deepest)) == deepest
    with pytest.raises(UnsupportedValueError, match="more than 64 levels"):
        encode_state(nested(MAX_DEPTH + 1, kind))
    with pytest.raises(ValueError, match="more than 64 levels"):
        decode_state(plain_cbor.encode(nested(MAX_DEPTH + 1, kind)))


@pytest.mark.parametrize("kind", ["list", "dict", "both"])
def test_a_state_of_10000_levels_is_refused_before_an_encoder_sees_it(kind: str) -> None:
    """cbor2 kills the interpreter on a list nested that deep."""
    with pytest.raises(UnsupportedValueError, match="more than 64 levels"):
        encode_state(nested(10_000, kind))


def test_where_the_stack_has_no_room_for_64_levels_the_errors_are_the_same() -> None:
    deepest = nested(MAX_DEPTH, "both")
    encoded = encode_state(deepest)
    with pytest.raises(UnsupportedValueError, match="no room"):
        with_room_for(40, lambda: encode_state(deepest))
    with pytest.raises(ValueError, match="no room"):
        with_room_for(40, lambda: decode_state(encoded))
    assert decode_state(encoded) == deepest


def test_a_state_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.extend([loop, loop])
    with pytest.raises(UnsupportedValueError, match="more than 64 levels"):
        encode_state(loop)


SECOND_ENCODINGS = {
    "nothing": "",
    "a trailing byte": "0000",
    "a trailing byte after text": "616100",
    "text that ends early": "6261",
    "text that ends within its head": "78",
    "longer text that ends within its head": "7901",
    "text in a longer form": "780161",
    "text of 26 bytes that says 25": "7819" + "61" * 26,
    "text of 26 bytes that says 27": "781b" + "61" * 26,
    "text of 300 bytes that says 299": "79012b" + "61" * 300,
    "text of 300 bytes that says 301": "79012d" + "61" * 300,
    "text of indefinite length": "7f6161ff",
    "text that is not UTF-8": "61ff",
    "text with an encoded surrogate": "63eda080",
    "a longer form of a number": "1805",
    "a number of eight bytes that fits four": "1b0000000000000005",
    "a bignum that fits 64 bits": "c24105",
    "a bignum with a leading zero": "c24a00ffffffffffffffffff",
    "an empty bignum": "c240",
    "a negative bignum that fits": "c34105",
    "a bignum of indefinite length": "c25f49ffffffffffffffffffff",
    "a float of 16 bits": "f93c00",
    "a float of 32 bits": "fa3f800000",
    "NaN": "fb7ff8000000000000",
    "infinity": "fb7ff0000000000000",
    "undefined": "f7",
    "simple value 0": "e0",
    "simple value 255": "f8ff",
    "false in two bytes": "f814",
    "a break": "ff",
    "a list of indefinite length": "9f01ff",
    "a map of indefinite length": "bf616101ff",
    "a list that ends early": "8201",
    "a list of 2^60 items": "9b1000000000000000",
    "a list of 2^64 - 1 items": "9bffffffffffffffff",
    "a map of 2^64 - 1 items": "bbffffffffffffffff",
    "text of 2^60 bytes": "7b1000000000000000",
    "a duplicate key": "a2616101616102",
    "a duplicate key of the same value": "a2616101616101",
    "one key as a number and as a bignum": "a20501c2410502",
    "a float key": "a1fb3ff800000000000001",
    "a float key that equals a number": "a1fb3ff000000000000001",
    "a bool key": "a1f501",
    "a null key": "a1f601",
    "a bytes key": "a1416101",
    "a list key": "a18001",
    "a date (tag 0)": "c074323031332d30332d32315432303a30343a30305a",
    "a time (tag 1)": "c11a514b67b0",
    "a decimal fraction (tag 4)": "c48221196ab3",
    "a fraction (tag 30)": "d81e820103",
    "a regular expression (tag 35)": "d8236161",
    "a MIME message (tag 36)": "d8246161",
    "a UUID (tag 37)": "d82550" + "00" * 16,
    "an address (tag 52)": "d83444c0a80001",
    "a day (tag 100)": "d86400",
    "a set (tag 258)": "d9010280",
    "self-described CBOR (tag 55799)": "d9d9f700",
    "an unknown tag": "d9ffff00",
    "shared (tag 28)": "d81c80",
    "a reference (tag 29)": "82d81c80d81d00",
    "a list that holds itself": "d81c81d81d00",
    "a table of strings (tag 256)": "d9010082616161" + "61",
    "a string by number (tag 25)": "d901008264616161" + "61d81900",
}


@pytest.mark.parametrize("data", SECOND_ENCODINGS.values(), ids=SECOND_ENCODINGS.keys())
def test_no_second_encoding_and_no_other_type_decodes(data: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which one is the decoder's business
        decode_state(bytes.fromhex(data))


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("value", [0, 5, 23, 24, 255, 256, 65535, 65536, (1 << 32) - 1])
def test_no_item_has_a_head_longer_than_needed_wherever_it_stands(width: int, value: int) -> None:
    least = {1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}[width]
    if value >= 1 << 8 * width:
        return
    heads = {
        major: bytes([major << 5 | 23 + width.bit_length()]) + value.to_bytes(width, "big")
        for major in range(6)
    }
    items = [heads[0], heads[1]]
    if value < 300:
        contents = (bytes(value), b"a" * value, b"\0" * value)
        items += [
            heads[major] + content for major, content in zip((2, 3, 4), contents, strict=True)
        ]
        items.append(heads[5] + b"".join(head(0, key) + b"\0" for key in range(value)))
    for item in items:
        for data in (item, b"\x81" + item, b"\xa1\x00" + item, b"\x82" + item + b"\x00"):
            if value >= least:
                assert encode_state(decode_state(data)) == data
            else:
                with pytest.raises(ValueError):  # noqa: PT011 - head or what follows a shorter one
                    decode_state(data)
    for key in (heads[0], heads[1], *([heads[3] + b"a" * value] if value < 300 else [])):
        if value >= least:
            assert encode_state(decode_state(b"\xa1" + key + b"\x00")) == b"\xa1" + key + b"\x00"
        else:
            with pytest.raises(ValueError):  # noqa: PT011
                decode_state(b"\xa1" + key + b"\x00")


def laughs(levels: int) -> bytes:
    """Encode a list of two lists of two lists ... each of them one list and a reference to it."""
    data = b"\xd8\x1c\x80"
    for level in range(levels, 0, -1):
        data = b"\xd8\x1c\x82" + data + b"\xd8\x1d" + head(0, level)
    return data


def test_references_are_refused_before_they_are_followed() -> None:
    """A billion laughs in 100 bytes: 2^16 lists here, and 2^60 for who adds 300 bytes."""
    with pytest.raises(ValueError, match="a tag"):
        decode_state(laughs(16))
    assert calls(lambda: decode_state(laughs(16))) < 100


def test_a_string_is_not_repeated_by_its_number() -> None:
    """20 KB that would become 40 MB."""
    text, often = b"x" * 20_000, 2000
    table = b"\xd9\x01\x00" + head(0x80, often + 1) + head(0x40, len(text)) + text
    with pytest.raises(ValueError, match="a tag"):
        decode_state(table + b"\xd8\x19\x00" * often)


@pytest.mark.parametrize(
    "state",
    ["x" * 65_536, b"x" * 65_536, [0] * 20_000, {str(n): n for n in range(9000)}, 1 << 500_000],
    ids=["text", "bytes", "list", "map", "number"],
)
def test_a_state_of_64_kilobytes_comes_back(state: State) -> None:
    assert decode_state(encode_state(state)) == state


def work(state: State) -> int:
    return calls(lambda: decode_state(encode_state(state)))


def test_twice_the_state_is_at_most_twice_the_work() -> None:
    lists: list[State] = [[]]
    assert work(lists * 2000) <= 2 * work(lists * 1000) + 10
    floats: State = {str(n): 0.5 for n in range(1000)}
    more: State = {str(n): 0.5 for n in range(2000)}
    assert work(more) <= 2 * work(floats) + 10


def test_the_decoder_is_one_that_still_takes_what_is_refused_here() -> None:
    """If cbor2 came to refuse all this by itself, the cases above would prove nothing of ours."""
    for name in (
        "a trailing byte",
        "undefined",
        "a regular expression (tag 35)",
        "a reference (tag 29)",
    ):
        cbor2.loads(bytes.fromhex(SECOND_ENCODINGS[name]))
    assert struct.unpack(">d", cbor2.dumps(1.0)[1:]) == (1.0,)
