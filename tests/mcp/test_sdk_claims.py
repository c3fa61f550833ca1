"""The SDK's claims as CBOR: the same bytes come back, and one payload means one thing."""

import base64
import json
import math
import struct
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.server.request_state import compact_json

from statebox.bindings import METHODS
from statebox.mcp.sdk_claims import decode_claims, encode_claims

AUDIENCE, EXPIRES_AT, ISSUED_AT, CONTINUATION, AS_THEY_CAME = 3, 4, 6, -65538, -65539
DIGEST = bytes(range(16))
SALTED_TAG = bytes(range(24))


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# In the order in which the SDK's boundary writes them.
CLAIMS: dict[str, Any] = {
    "v": 1,
    "iat": 1790000000.1234567,
    "exp": 1790000600.1234567,
    "m": "tools/call",
    "t": "refund",
    "a": base64url(DIGEST),
    "s": '{"step":"confirm"}',
    "aud": "billing",
    "p": base64url(SALTED_TAG),
}


def claims(**changed: object) -> bytes:
    """Write the SDK's claims with some changed; None takes one out."""
    return compact_json({k: v for k, v in (CLAIMS | changed).items() if v is not None}).encode()


def payload(**changed: object) -> dict[object, object]:
    """Give the map of the claims, with some of its members changed, by their names here."""
    members: dict[str, object] = {
        "aud": "billing",
        "exp": CLAIMS["exp"],
        "iat": CLAIMS["iat"],
        "method": 1,
        "target": "refund",
        "digest": DIGEST,
        "principal": SALTED_TAG,
        "state": CLAIMS["s"],
    } | changed
    continuation = [members[name] for name in ("method", "target", "digest", "principal", "state")]
    return {
        AUDIENCE: members["aud"],
        EXPIRES_AT: members["exp"],
        ISSUED_AT: members["iat"],
        CONTINUATION: continuation,
    }


def test_the_claims_become_the_map_of_the_format() -> None:
    encoded = encode_claims(claims())
    assert cbor2.loads(encoded) == payload()
    assert encoded == cbor2.dumps(payload())


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": None},
        {"p": None},
        {"aud": None, "p": None},
        {"m": "prompts/get"},
        {"m": "resources/read", "t": "file:///etc/motd"},
        {"m": "vendor/ask"},
        {"iat": 1790000000, "exp": 1790000600},
        {"iat": 0, "exp": (1 << 64) - 1},
        {"iat": -1.5, "exp": 5e-324},
        {"s": ""},
        {"s": 'quotes " and \\ and é and \U0001f600'},
        {"t": ""},
        {"a": ""},
    ],
    ids=str,
)
def test_what_the_sdk_can_say_is_said_compactly_and_comes_back(changed: dict[str, object]) -> None:
    given_claims = claims(**changed)
    encoded = encode_claims(given_claims)
    assert CONTINUATION in cbor2.loads(encoded)
    assert len(encoded) < len(given_claims)
    assert decode_claims(encoded) == given_claims


@pytest.mark.parametrize(
    "as_they_came",
    [
        b"",
        b"no JSON",
        b"[]",
        b"null",
        b"{}",
        b"\xff\xfe",
        pytest.param(b"[" * 100_000, id="deep"),
        "é".encode(),
        claims(v=2),
        claims(v=True),
        claims(later="claim"),
        claims(iat="1790000000"),
        claims(iat=True),
        claims(iat=-1),
        claims(exp=1 << 64),
        claims(s=["list"]),
        claims(t=7),
        claims(m=1),
        claims(aud=5),
        claims(a="AB"),  # unused bits are set: not canonical
        claims(a=CLAIMS["a"][:-1] + "x"),
        claims(p=CLAIMS["p"] + "AAF"),
        claims(a="not base64url!"),
        claims(a=7),
        claims(p="AA=="),
        claims(t="\ud800"),  # a lone surrogate, which CBOR text cannot hold
        claims() + b" ",
        claims().replace(b'"v":1,', b'"v": 1,'),
        claims().replace(b"refund", b"\\u0072efund"),
        claims().replace(b"refund", b"re\\/fund"),
        claims().replace(b"refund", b"re\x7ffund"),
        claims().replace(b"refund", b"re\x01fund"),
        claims().replace(b"refund", b"re\nfund"),
        claims().replace(b"refund", "rëfund".encode()),
        claims().replace(b'"v":1,', b'"v":1,"v":1,'),
        claims().replace(b"1790000000.1234567", b"1790000000.12345670"),
        claims().replace(b"1790000000.1234567", b"01790000000"),
        claims().replace(b"1790000000.1234567", b"1.7900000001234567e9"),
        claims().replace(b".1234567", b".12345670"),  # of both times
        claims().replace(b".1234567", b"."),
        claims().replace(b".1234567", b".e0"),
        claims().replace(b"1790000000.1234567", b"NaN"),
        claims().replace(b"1790000000.1234567", b"1e999"),
        json.dumps(dict(reversed(CLAIMS.items())), separators=(",", ":")).encode(),
    ],
)
def test_what_is_said_otherwise_is_carried_as_it_came(as_they_came: bytes) -> None:
    encoded = encode_claims(as_they_came)
    assert cbor2.loads(encoded) == {AS_THEY_CAME: as_they_came}
    assert decode_claims(encoded) == as_they_came


def reference(given_claims: bytes) -> bytes:
    """Encode claims through the parsers: the map if the very same text can be made of it again."""
    try:
        parsed = json.loads(given_claims.decode("ascii"))
        assert list(parsed) == [name for name in CLAIMS if name in parsed]
        assert compact_json(parsed).encode() == given_claims
        assert type(parsed["v"]) is int
        assert parsed["v"] == 1
        members = payload(
            exp=time_of(parsed["exp"]),
            iat=time_of(parsed["iat"]),
            method=METHODS.get(parsed["m"], parsed["m"]),
            target=parsed["t"],
            digest=bytes_of(parsed["a"]),
            principal=bytes_of(parsed["p"]) if "p" in parsed else None,
            state=parsed["s"],
            aud=parsed.get("aud"),
        )
        assert all(type(parsed.get(name, "")) is str for name in ("m", "t", "s", "aud"))
        if "aud" not in parsed:
            del members[AUDIENCE]
        return cbor2.dumps(members)
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError):
        return cbor2.dumps({AS_THEY_CAME: given_claims})


def time_of(value: object) -> object:
    if type(value) is float:
        assert math.isfinite(value)
    else:
        assert type(value) is int
        assert 0 <= value < 1 << 64
    return value


def bytes_of(text: str) -> bytes:
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert base64url(data) == text
    return data


def as_the_sdk_writes(members: dict[str, Any]) -> bytes:
    return compact_json({name: members[name] for name in CLAIMS if name in members}).encode()


times = st.floats() | st.integers(0, 1 << 65) | st.floats(1.7e9, 1.9e9)
texts = st.text(st.characters() | st.sampled_from('"\\/\x7f\n'))  # lone surrogates too
json_texts = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | texts,
    lambda values: st.lists(values) | st.dictionaries(texts, values),
    max_leaves=5,
).map(json.dumps)
sdk_claims = st.fixed_dictionaries(
    {
        "v": st.just(1),
        "iat": times,
        "exp": times,
        "m": st.sampled_from(["tools/call", "prompts/get", "resources/read"]) | texts,
        "t": texts,
        "a": st.binary(max_size=20).map(base64url) | texts,
        "s": texts | json_texts,
    },
    optional={"aud": texts, "p": st.binary(max_size=30).map(base64url)},
).map(as_the_sdk_writes)


@given(sdk_claims)
def test_any_claims_come_back_byte_for_byte(given_claims: bytes) -> None:
    assert decode_claims(encode_claims(given_claims)) == given_claims


@given(sdk_claims)
def test_any_claims_become_the_bytes_that_parsers_make_of_them(given_claims: bytes) -> None:
    assert encode_claims(given_claims) == reference(given_claims)


borders = st.sampled_from(
    [float(border + d) for border in (1e9, 1 << 30, 1 << 31, 1e10) for d in (-1, 0)]
)


@given(
    st.floats(9e8, 1.1e10) | borders, st.integers(0, 1 << 20) | st.sampled_from([1, 600, 1 << 30])
)
def test_times_that_are_whole_seconds_apart_become_what_parsers_make_of_them(
    iat: float, ttl: int
) -> None:
    for start in (math.nextafter(iat, 0), iat, math.nextafter(iat, math.inf)):
        given_claims = claims(iat=start, exp=start + ttl)
        encoded = encode_claims(given_claims)
        assert encoded == reference(given_claims)
        assert decode_claims(encoded) == given_claims


times_now = st.floats(1.7e9, 1.9e9)
utf8_texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\\x7f'))


@given(
    st.fixed_dictionaries(
        {
            "v": st.just(1),
            "iat": st.floats(allow_nan=False, allow_infinity=False),
            "exp": times_now,
            "m": st.sampled_from(sorted(METHODS)),
            "t": utf8_texts,
            "a": st.binary(min_size=16, max_size=16).map(base64url),
            "s": utf8_texts | json_texts,
        },
        optional={
            "aud": utf8_texts,
            "p": st.binary(min_size=24, max_size=24).map(base64url),
        },
    ).map(as_the_sdk_writes)
)
def test_all_that_the_sdk_makes_is_said_compactly(given_claims: bytes) -> None:
    encoded = encode_claims(given_claims)
    assert CONTINUATION in cbor2.loads(encoded)
    assert len(encoded) < len(given_claims)


@given(st.binary())
def test_any_bytes_come_back(data: bytes) -> None:
    assert decode_claims(encode_claims(data)) == data


@st.composite
def edited(
    draw: st.DrawFn, whole: st.SearchStrategy[bytes], piece: st.SearchStrategy[bytes]
) -> bytes:
    """Put another piece, or none, in the place of a piece of some bytes."""
    data = draw(whole)
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, min(len(data), start + 4)))
    return data[:start] + draw(piece) + data[end:]


json_pieces = st.sampled_from(
    b'0 9 - .0 e0 E+1 _ + , " \\ \\/ \\n \\u0041 \\ud800 \x00 \x7f \xc3\xa9 = A "v":1, nan inf'.split(
        b" "
    )
) | st.just(b" ")


@settings(max_examples=500)
@given(edited(sdk_claims, json_pieces))
def test_other_texts_of_the_same_claims_come_back_byte_for_byte(data: bytes) -> None:
    assert encode_claims(data) == reference(data)
    assert decode_claims(encode_claims(data)) == data


OTHER_SHAPES: list[object] = [
    {},
    {AS_THEY_CAME: "text"},
    {AS_THEY_CAME: None},
    {AS_THEY_CAME: b"", CONTINUATION: []},
    payload() | {AS_THEY_CAME: b""},
    payload() | {7: b"a token id"},
    {key: member for key, member in payload().items() if key != EXPIRES_AT},
    {key: member for key, member in payload().items() if key != CONTINUATION},
    dict(reversed(payload().items())),
    payload() | {CONTINUATION: None},
    payload() | {CONTINUATION: []},
    payload() | {CONTINUATION: [1, "refund", DIGEST, None, "", "more"]},
    payload(aud=None),
    payload(aud=b"billing"),
    payload(exp=None),
    payload(exp=-1),
    payload(exp=True),
    payload(iat="1790000000"),
    payload(iat=1 << 64),
    payload(iat=float("inf")),
    payload(method=0),
    payload(method=4),
    payload(method=True),
    payload(method=None),
    payload(method=[1]),
    payload(method={"tools/call": 1}),
    payload(method=1.0),
    payload(method="tools/call"),  # a known method has one encoding, its number
    payload(target=None),
    payload(digest=base64url(DIGEST)),
    payload(principal="alice"),
    payload(state={"step": "confirm"}),
    payload(state=None),
    # A native payload, and one that holds both.
    {3: "billing", 4: 2, 6: 1, -65537: [b"\x00" * 8, 1, 3, None, None, "state"]},
    payload() | {-65537: [b"\x00" * 8, 1, 3, None, None, "state"]},
    [],
    "text",
    None,
]


@pytest.mark.parametrize("members", OTHER_SHAPES, ids=str)
def test_a_payload_of_another_shape_is_refused(members: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any message; the codec gives it a code
        decode_claims(cbor2.dumps(members))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        cbor2.dumps(payload()) + b"\x00",
        cbor2.dumps(payload())[:-1],
        cbor2.dumps(payload(), indefinite_containers=True),
        b"\xa1\x3a\x00\x01\x00\x02\x58\x00",  # the length 0 in a longer form
        encode_claims(claims()).replace(b"\x66refund", b"\x78\x06refund"),
        encode_claims(claims()).replace(b"\x50" + DIGEST, b"\x58\x10" + DIGEST),
    ],
)
def test_a_second_encoding_of_a_payload_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any message; the codec gives it a code
        decode_claims(data)


NOT_FINITE = (math.inf, -math.inf, math.nan)
NUMBERS = [struct.pack(">d", CLAIMS[name]) for name in ("iat", "exp")]


@pytest.mark.parametrize(
    ("part", "other"),
    [
        *((number, struct.pack(">d", value)) for number in NUMBERS for value in NOT_FINITE),
        (b"\x04\xfb" + NUMBERS[1], b"\x05\xfb" + NUMBERS[1]),
        (b"\x06\xfb" + NUMBERS[0], b"\x07\xfb" + NUMBERS[0]),
        (b"\x06\xfb" + NUMBERS[0], b"\x06\xfa" + NUMBERS[0][:4]),
        (b"\x3a\x00\x01\x00\x01\x85", b"\x3a\x00\x01\x00\x00\x85"),  # the native claims' label
        (b"\x3a\x00\x01\x00\x01\x85", b"\x3a\x00\x01\x00\x01\x86"),
        (b"\x50" + DIGEST, b"\x70" + DIGEST),
        (b"\x58\x18" + SALTED_TAG, b"\x78\x18" + SALTED_TAG),
    ],
)
def test_a_payload_of_usual_widths_is_refused_for_any_other_part(part: bytes, other: bytes) -> None:
    encoded = encode_claims(claims())
    assert part in encoded
    with pytest.raises(ValueError):  # noqa: PT011 - as above
        decode_claims(encoded.replace(part, other))


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_time_that_is_not_finite_is_refused_beside_a_whole_one(value: float) -> None:
    encoded = encode_claims(claims(iat=1790000000))
    assert NUMBERS[1] in encoded
    with pytest.raises(ValueError):  # noqa: PT011 - as above
        decode_claims(encoded.replace(NUMBERS[1], struct.pack(">d", value)))


payloads = sdk_claims.map(encode_claims)
cbor_pieces = st.binary(max_size=4) | st.sampled_from(
    [
        b"\xf6",
        b"\x60",
        b"\x40",
        b"\x50",
        b"\x58\x18",
        b"\x58\x17",
        b"\x00",
        b"\x18\x18",
        b"\xfb",
        b"\xfa",
    ]
)


@settings(max_examples=500)
@given(st.binary(max_size=60) | payloads | edited(payloads, cbor_pieces))
def test_what_decodes_has_no_second_encoding(data: bytes) -> None:
    try:
        decoded = decode_claims(data)
    except ValueError:
        return
    assert encode_claims(decoded) == data or cbor2.dumps({AS_THEY_CAME: decoded}) == data


@pytest.mark.parametrize("bound", [{}, {"aud": None}, {"p": None}, {"m": "vendor/ask"}, {"iat": 7}])
def test_a_payload_that_ends_early_or_late_is_refused(bound: dict[str, object]) -> None:
    for whole in (encode_claims(claims(**bound)), encode_claims(b"as they came")):
        for end in range(len(whole)):
            with pytest.raises(ValueError):  # noqa: PT011 - as above
                decode_claims(whole[:end])
        with pytest.raises(ValueError):  # noqa: PT011 - as above
            decode_claims(whole + b"\x00")
