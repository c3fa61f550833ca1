"""The SDK's claims as CBOR: the same bytes come back, and one payload means one thing."""

import base64
import json
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.request_state import compact_json

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
        claims(a="not base64url!"),
        claims(a=7),
        claims(p="AA=="),
        claims(t="\ud800"),  # a lone surrogate, which CBOR text cannot hold
        claims() + b" ",
        claims().replace(b'"v":1,', b'"v": 1,'),
        claims().replace(b"refund", b"\\u0072efund"),
        claims().replace(b'"v":1,', b'"v":1,"v":1,'),
        claims().replace(b"1790000000.1234567", b"1790000000.12345670"),
        claims().replace(b"1790000000.1234567", b"NaN"),
        claims().replace(b"1790000000.1234567", b"1e999"),
        json.dumps(dict(reversed(CLAIMS.items())), separators=(",", ":")).encode(),
    ],
)
def test_what_is_said_otherwise_is_carried_as_it_came(as_they_came: bytes) -> None:
    encoded = encode_claims(as_they_came)
    assert cbor2.loads(encoded) == {AS_THEY_CAME: as_they_came}
    assert decode_claims(encoded) == as_they_came


times = st.floats() | st.integers(0, 1 << 65)
texts = st.text(st.characters())  # lone surrogates too


@given(
    st.fixed_dictionaries(
        {
            "v": st.just(1),
            "iat": times,
            "exp": times,
            "m": st.sampled_from(["tools/call", "prompts/get", "resources/read"]) | texts,
            "t": texts,
            "a": st.binary(max_size=20).map(base64url) | texts,
            "s": texts,
        },
        optional={"aud": texts, "p": st.binary(max_size=30).map(base64url)},
    )
)
def test_any_claims_come_back_byte_for_byte(some: dict[str, Any]) -> None:
    given_claims = compact_json(some).encode()
    assert decode_claims(encode_claims(given_claims)) == given_claims


@given(st.binary())
def test_any_bytes_come_back(data: bytes) -> None:
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
    ],
)
def test_a_second_encoding_of_a_payload_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any message; the codec gives it a code
        decode_claims(data)


@given(st.binary(max_size=60))
def test_what_decodes_has_no_second_encoding(data: bytes) -> None:
    try:
        decoded = decode_claims(data)
    except ValueError:
        return
    assert encode_claims(decoded) == data or cbor2.loads(data) == {AS_THEY_CAME: decoded}
