"""What a token is bound to: a request by its digest, a principal by its tag."""

import copy
import hashlib
import itertools
import math
import pickle
from collections import OrderedDict, UserDict
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from statebox import Request
from statebox.bindings import (
    METHODS,
    Principal,
    normalized,
    principal_cbor,
    principal_mac,
    principal_tag,
)
from tests.samples import REQUEST, key, secret, shown
from tests.states import any_text, arguments, nested
from tests.vectors import independent
from tests.vectors.plain_cbor import encode


def digest_of(value: object) -> bytes:
    return Request("tools/call", "t", {"a": value}).digest


# --- normalized arguments -----------------------------------------------------------------------

SAME: dict[str, tuple[object, object]] = {
    "1 and 1.0": (1, 1.0),
    "100 and 1e2": (100, 1e2),
    "0 and -0.0": (0, -0.0),
    "10^20 and 1e20": (10**20, 1e20),
    "2^53 and its float": (2**53, float(2**53)),
    "1e308 and its integer": (1e308, int(1e308)),
    "-7 and -7.0": (-7, -7.0),
    "a list and a tuple": ([1, 2], (1, 2)),
    "keys in another order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "NaN and another NaN": (math.nan, -math.nan),
    "maps of other kinds": ({"a": 1}, MappingProxyType(OrderedDict({"a": 1}))),
}
APART: dict[str, tuple[object, object]] = {
    "2^53 and 2^53 + 1": (2**53, 2**53 + 1),
    "2^53 + 1 and the float next to it": (2**53 + 1, float(2**53)),
    "10^23 and 1e23": (10**23, 1e23),
    "true and 1": (True, 1),
    "false and 0": (False, 0),
    "null and false": (None, False),
    "null and an empty map": (None, {}),
    "text and number": ("1", 1),
    "an empty list and an empty map": ([], {}),
    "a list and its only item": ([1], 1),
    "composed and decomposed": ("\u00e9", "e\u0301"),
    "a lone surrogate and another": ("\ud800", "\ud801"),
    "a lone surrogate and a question mark": ("\ud800", "?"),
    "a surrogate pair and its character": ("\ud83d\ude00", "\U0001f600"),
    "a lone surrogate and its bytes' text": ("\ud800", "\u00ed\u00a0\u0080"),
    "NaN and infinity": (math.nan, math.inf),
    "the infinities": (math.inf, -math.inf),
    "NaN and null": (math.nan, None),
    "a float and its text": (0.5, "0.5"),
    "0.1 + 0.2 and 0.3": (0.1 + 0.2, 0.3),
    "case": ("A", "a"),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME.keys())
def test_arguments_that_are_equal_have_one_digest(one: object, other: object) -> None:
    assert digest_of(one) == digest_of(other)


@pytest.mark.parametrize(("one", "other"), APART.values(), ids=APART.keys())
def test_arguments_that_differ_have_two(one: object, other: object) -> None:
    assert digest_of(one) != digest_of(other)


def test_a_member_that_is_null_is_not_an_absent_one() -> None:
    assert Request("tools/call", "t", {"a": None}) != Request("tools/call", "t", {})


def test_absent_null_and_empty_arguments_are_the_same() -> None:
    requests = [
        Request("tools/call", "t"),
        Request("tools/call", "t", None),
        Request("tools/call", "t", {}),
        Request.from_params("tools/call", {"name": "t"}),
        Request.from_params("tools/call", {"name": "t", "arguments": None}),
        Request.from_params("tools/call", {"name": "t", "arguments": {}}),
    ]
    assert {request.digest for request in requests} == {hashlib.sha256(b"\xa0").digest()[:16]}


@given(value=arguments)
@example(value={"": "\ud800", "\ud800": 1, "b": {"\udfff": [math.nan, math.inf, -math.inf]}})
@example(value={"n": [-0.0, 1e308, -1e308, 5e-324, 2**64, -(2**64) - 1]})
def test_arguments_are_normalized_as_the_format_page_says(value: dict[str, object]) -> None:
    assert normalized(value) == independent.normalized(value)


@settings(max_examples=40)
@given(value=arguments, order=st.randoms(use_true_random=False))
def test_the_order_of_a_map_does_not_count_at_any_depth(value: Any, order: Any) -> None:
    def shuffled(item: object) -> object:
        if isinstance(item, dict):
            pairs = list(cast("dict[str, object]", item).items())
            order.shuffle(pairs)
            return {name: shuffled(inner) for name, inner in pairs}
        return [shuffled(x) for x in cast("list[object]", item)] if isinstance(item, list) else item

    assert normalized(shuffled(value)) == normalized(value)


@settings(max_examples=40)
@given(one=arguments, other=arguments)
def test_the_encoding_of_arguments_can_be_told_apart_unless_they_are_equal(
    one: dict[str, object], other: dict[str, object]
) -> None:
    """Equal bytes, equal arguments: Python's == agrees, but for True == 1 and NaN != NaN."""
    if normalized(one) == normalized(other):
        assert repr(normalized(one)) == repr(normalized(other))
        assert one == other or "nan" in repr(one)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Plain(str, Enum):  # noqa: UP042 - the older form is what many servers have
    A = "a"


class Half(float):
    __slots__ = ()


@pytest.mark.parametrize(
    ("kind", "plain"),
    [(Colour.RED, "red"), (Level.HIGH, 3), (Plain.A, "a"), (Half(0.5), 0.5), (Half(2.0), 2)],
    ids=repr,
)
def test_of_a_subclass_the_number_or_the_text_counts(kind: object, plain: object) -> None:
    assert digest_of(kind) == digest_of(plain)
    assert digest_of([{"x": kind}]) == digest_of([{"x": plain}])


def test_a_key_of_a_subclass_counts_as_its_text() -> None:
    assert digest_of({Colour.RED: 1, Plain.A: 2}) == digest_of({"red": 1, "a": 2})


@pytest.mark.parametrize(
    "value", [{1}, object(), Decimal(1), 1j, b"a", bytearray(b"a"), range(3), iter([])], ids=shown
)
def test_an_argument_that_json_does_not_have_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="which JSON does not have"):
        digest_of(value)


@pytest.mark.parametrize("name", [1, None, True, 1.5, b"a", ("a",)], ids=repr)
def test_a_map_whose_key_is_no_text_is_a_type_error(name: object) -> None:
    with pytest.raises(TypeError, match="text keys"):
        digest_of({name: 1})


@pytest.mark.parametrize("value", [[], 0, "", False, (), [1], "a", 5, b"", {1}], ids=repr)
def test_arguments_are_a_map_even_when_they_are_empty(value: Any) -> None:
    with pytest.raises(TypeError, match="arguments are a map"):
        Request("tools/call", "t", value)
    with pytest.raises(TypeError, match="arguments are a map"):
        Request.from_params("tools/call", {"name": "t", "arguments": value})


@pytest.mark.parametrize("value", [[], 0, "", False, [1], "name", 5], ids=repr)
def test_params_are_a_map(value: Any) -> None:
    with pytest.raises(TypeError, match="params are a map"):
        Request.from_params("tools/call", value)


def test_a_map_of_any_kind_is_a_map() -> None:
    assert Request("tools/call", "t", UserDict(a=1)) == Request("tools/call", "t", {"a": 1})


@pytest.mark.parametrize("kind", ["list", "dict", "both"])
def test_arguments_may_be_64_levels_deep_and_no_deeper(kind: str) -> None:
    digest_of(nested(63, kind))
    with pytest.raises(ValueError, match="deeper than 64 levels"):
        digest_of(nested(64, kind))


@pytest.mark.parametrize("kind", ["list", "dict", "both"])
def test_arguments_of_10000_levels_are_refused_before_an_encoder_sees_them(kind: str) -> None:
    """They are the client's, and the encoder would take the process down."""
    with pytest.raises(ValueError, match="deeper than 64 levels"):
        digest_of(nested(10_000, kind))


def test_arguments_that_hold_themselves_are_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="deeper than 64 levels"):
        digest_of(loop)
    circle: dict[str, object] = {}
    circle["a"] = (circle,)
    with pytest.raises(ValueError, match="deeper than 64 levels"):
        digest_of(circle)


LARGE = [10**20_000, -(10**20_000), "x" * 65_536, [0.5] * 9000]


@pytest.mark.parametrize("value", LARGE, ids=["number", "negative", "text", "list"])
def test_64_kilobytes_of_anything_have_a_digest(value: object) -> None:
    assert digest_of(value) == hashlib.sha256(independent.normalized({"a": value})).digest()[:16]


# --- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, "completion/complete", "", "x" * 300, "tools/Call"])
def test_a_request_is_written_as_the_format_page_says(method: str) -> None:
    made = Request(method, "refund", {"order": 1})
    assert made.cbor == encode(
        independent.request_item({"method": method, "target": "refund", "arguments": {"order": 1}})
    )


ORDERS = st.dictionaries(st.just("order"), st.integers(0, 1), max_size=1)


@given(
    parts=st.lists(
        st.tuples(st.sampled_from([*METHODS, "x", "x/y"]), st.text("ab", max_size=1), ORDERS),
        min_size=2,
        max_size=2,
    )
)
def test_two_requests_are_equal_exactly_if_method_target_and_digest_are(
    parts: list[tuple[str, str, dict[str, int]]],
) -> None:
    one, other = (Request(*part) for part in parts)
    same = parts[0][:2] == parts[1][:2] and one.digest == other.digest
    assert (one == other) is same
    assert (hash(one) == hash(other)) is same
    assert (one.cbor == other.cbor) is same


def test_nothing_but_the_named_members_of_the_params_enters() -> None:
    bare = {"name": "refund", "arguments": {"order": 1}}
    noise = {
        "_meta": {"progressToken": 1},
        "inputResponses": {},
        "requestState": "sb1.x",
        "uri": "u",
    }
    assert Request.from_params("tools/call", bare | noise) == Request(
        "tools/call", "refund", {"order": 1}
    )


def test_of_a_resource_the_uri_is_the_target_and_there_are_no_arguments() -> None:
    params = {"uri": "file:///a", "name": "n", "arguments": {"a": 1}}
    assert Request.from_params("resources/read", params) == Request("resources/read", "file:///a")
    assert Request.from_params("prompts/get", params) == Request("prompts/get", "n", {"a": 1})


def test_params_without_a_name_or_without_anything_name_nothing() -> None:
    assert Request.from_params("tools/call", None) == Request("tools/call", "")
    assert Request.from_params("resources/read", {}) == Request("resources/read", "")


@pytest.mark.parametrize("value", [None, 7, b"refund", ["refund"], Colour.RED, True], ids=repr)
def test_method_and_target_are_plain_text(value: Any) -> None:
    with pytest.raises(TypeError, match="method and target are text"):
        Request("tools/call", value)
    with pytest.raises(TypeError, match="method and target are text"):
        Request(value, "refund")
    with pytest.raises(TypeError, match="method and target are text"):
        Request.from_params("tools/call", {"name": value})
    with pytest.raises(TypeError, match="method and target are text"):
        Request.from_params("resources/read", {"uri": value})


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc80b", "\ud83d\ude00"], ids=shown)
def test_a_method_or_target_that_no_token_can_carry_is_a_value_error(text: str) -> None:
    """It would seal as a byte string, and no opener takes one there."""
    with pytest.raises(ValueError, match="surrogates not allowed"):
        Request("tools/call", text)
    with pytest.raises(ValueError, match="surrogates not allowed"):
        Request(text, "refund")
    with pytest.raises(ValueError, match="surrogates not allowed"):
        Request.from_params("resources/read", {"uri": text})


@pytest.mark.parametrize("name", ["method", "target", "digest", "cbor", "new"])
def test_a_request_never_changes(name: str) -> None:
    made = Request("tools/call", "refund")
    with pytest.raises(AttributeError):
        setattr(made, name, "x")
    with pytest.raises(AttributeError):
        delattr(made, name)
    assert made == Request("tools/call", "refund")


def test_changing_the_arguments_afterwards_does_not_change_the_request() -> None:
    mine: dict[str, Any] = {"orders": [1]}
    made = Request("tools/call", "refund", mine)
    mine["orders"].append(2)
    assert made == Request("tools/call", "refund", {"orders": [1]})


def test_a_request_can_be_copied_and_pickled() -> None:
    for again in (copy.copy(REQUEST), copy.deepcopy(REQUEST), pickle.loads(pickle.dumps(REQUEST))):  # noqa: S301 - our own pickle
        assert again == REQUEST
        assert (again.method, again.target, again.digest) == (
            "tools/call",
            "refund",
            REQUEST.digest,
        )
        assert repr(again) == repr(REQUEST)


def test_a_request_is_no_other_type() -> None:
    made = Request("tools/call", "refund")
    assert made != made.cbor
    assert made != "refund"


# --- principals ---------------------------------------------------------------------------------

PRINCIPALS: list[Principal] = [
    "alice",
    ["alice", ""],
    ["", "alice"],
    ["al", "ice"],
    ["ali", "ce"],
    ["alice,"],
    ["a", "l", "ice"],
    ["https://issuer", "alice", "client"],
    ["https://issuer", "alice"],
    "Alice",
    "alice ",
    "",
    [],
    ["", ""],
    "\ud800",
    "\ud801",
    "?",
    "\u00e9",
    "e\u0301",
    "x" * 100_000,
]


def tag_of(principal: Principal) -> bytes:
    return principal_tag(principal_mac(key()), principal)


@pytest.mark.parametrize("principal", PRINCIPALS, ids=lambda value: ascii(value)[:30])
def test_a_principal_is_hashed_as_the_format_page_says(principal: Principal) -> None:
    assert tag_of(principal) == independent.principal_tag(secret("key-1 A256GCM"), principal)


def test_no_two_lists_of_parts_have_one_tag() -> None:
    assert len({tag_of(principal) for principal in PRINCIPALS}) == len(PRINCIPALS)


@given(
    one=st.lists(any_text, max_size=4),
    other=st.lists(any_text, max_size=4),
)
def test_the_encoding_of_a_principal_keeps_its_parts_apart(
    one: list[str], other: list[str]
) -> None:
    assert (principal_cbor(one) == principal_cbor(other)) is (one == other)


def test_a_text_is_a_list_of_one_part_and_a_tuple_is_a_list() -> None:
    assert len({tag_of(alice) for alice in ("alice", ["alice"], ("alice",))}) == 1
    assert len({tag_of(red) for red in (Colour.RED, [Colour.RED], "red")}) == 1


def test_a_tag_depends_on_the_key() -> None:
    assert tag_of("alice") != principal_tag(principal_mac(key("key-2")), "alice")
    assert len(tag_of("alice")) == 16


def test_one_prepared_hash_serves_any_number_of_principals() -> None:
    mac = principal_mac(key())
    tags = [principal_tag(mac, name) for name in ("alice", "bob", "alice")]
    assert tags[0] == tags[2] == tag_of("alice")
    assert tags[0] != tags[1]


@pytest.mark.parametrize(
    "value",
    [5, b"alice", {"alice"}, {"alice": 1}, True, object(), iter(["alice"]), memoryview(b"a")],
    ids=lambda value: type(value).__name__,
)
def test_a_principal_of_another_type_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="text or a list of texts"):
        principal_cbor(value)


@pytest.mark.parametrize("part", [None, 5, b"alice", ["alice"], ("a",), True], ids=repr)
def test_a_part_of_another_type_is_a_type_error(part: object) -> None:
    for parts in itertools.permutations([part, "alice"]):
        with pytest.raises(TypeError, match="every part of a principal is text"):
            principal_cbor(cast("list[str]", list(parts)))
