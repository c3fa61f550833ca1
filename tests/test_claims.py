"""The payload: one layout, written and read by position, of every width and of no other shape."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox.claims import Claims, Layout, decode_payload, token_id
from statebox.state import decode_state
from tests.samples import NOW
from tests.vectors.forge import payload_of
from tests.vectors.plain_cbor import Raw, encode, head

AUDIENCE = b"billing"
LAYOUT = Layout(AUDIENCE)
REQUEST = encode([1, "refund", b"\x05" * 16])
GOOD = Claims(AUDIENCE, NOW + 600, NOW, b"\x01" * 8, 1, NOW + 3600, b"\x06" * 16, REQUEST, b"\xf6")


def written(claims: Claims) -> bytes:
    return Layout(claims.audience).encode(*claims[1:])


def by_hand(claims: Claims) -> bytes:
    """Write the payload by the second implementation."""
    return payload_of(
        aud=claims.audience.decode(),
        exp=claims.expires_at,
        iat=claims.issued_at,
        flow=claims.flow,
        round=claims.round,
        deadline=claims.deadline,
        principal=claims.principal,
        request=None if claims.request is None else Raw(claims.request),
        state=Raw(claims.state),
    )


TIMES = st.one_of(
    [st.integers(0, (1 << 40) - 1)]
    + [
        st.sampled_from([(1 << bits) - 1, 1 << bits, (1 << bits) + 1]).filter(lambda t: t < 1 << 40)
        for bits in (4, 8, 16, 32, 39)
    ]
)
METHODS = st.sampled_from([1, 2, 3]) | st.text().filter(
    lambda text: text not in ("tools/call", "prompts/get", "resources/read")
)
DIGESTS = st.binary(min_size=16, max_size=16)
REQUESTS = st.none() | st.tuples(METHODS, st.text(), DIGESTS).map(encode)


@st.composite
def all_claims(draw: st.DrawFn) -> Claims:
    """Draw claims that hold together."""
    issued_at, expires_at, deadline = sorted(draw(st.tuples(TIMES, TIMES, TIMES)))
    return Claims(
        draw(st.text(min_size=1)).encode(),
        expires_at,
        issued_at,
        draw(st.binary(min_size=8, max_size=8)),
        draw(st.sampled_from([1, 23, 24, 255, 256, 65535]) | st.integers(1, 65535)),
        deadline,
        draw(st.none() | st.binary(min_size=16, max_size=16)),
        draw(REQUESTS),
        draw(st.sampled_from([b"\xf6", b"\x61a", b"\xa0", b"\x18\x2a"])),
    )


@given(claims=all_claims(), request=REQUESTS)
def test_claims_of_every_width_are_written_in_one_way_and_read_back(
    claims: Claims, request: bytes | None
) -> None:
    payload = written(claims)
    assert payload == by_hand(claims)
    assert decode_payload(payload) == claims
    for presented in (None, claims.request, request):
        assert read(Layout(claims.audience), payload, presented) == claims
        assert read(LAYOUT, payload, presented) == claims


@given(claims=all_claims(), data=st.data())
def test_both_ways_of_reading_agree_on_every_payload_and_what_reads_was_written_so(
    claims: Claims, data: st.DataObject
) -> None:
    payload = written(claims)
    at = data.draw(st.integers(0, len(payload)))
    patch = data.draw(st.binary(max_size=2))
    payload = payload[:at] + patch + payload[at + data.draw(st.integers(0, 2)) :]
    layout = Layout(claims.audience)
    results = [
        read_or_refused(lambda: decode_payload(payload)),
        read_or_refused(lambda: read(layout, payload, None)),
        read_or_refused(lambda: read(layout, payload, claims.request)),
    ]
    assert results[0] == results[1] == results[2]
    if results[0] is not None:
        assert written(results[0]) == payload


def read(layout: Layout, payload: bytes, request: bytes | None) -> Claims:
    fields, principal, sealed_with, state = layout.decode(payload, request)
    return Claims(*fields, principal, sealed_with, state)


def read_or_refused(read: Callable[[], Claims]) -> Claims | None:
    try:
        return read()
    except ValueError:
        return None


def changed(**claims: Any) -> bytes:
    return by_hand(GOOD._replace(**claims))


CONTRADICTIONS = {
    "iat after exp": changed(issued_at=NOW + 601),
    "exp after deadline": changed(expires_at=NOW + 3601),
    "a deadline of 2^40": changed(deadline=1 << 40),
    "all times of 2^40": changed(issued_at=1 << 40, expires_at=1 << 40, deadline=1 << 40),
    "times of 64 bits": changed(deadline=(1 << 64) - 1),
    "a small iat after a small exp": changed(issued_at=9, expires_at=8, deadline=10),
    "round 0": changed(round=0),
    "round 65536": changed(round=65536),
    "an empty audience": payload_of(aud=""),
    "an audience that is not UTF-8": payload_of(aud=Raw(b"\x62\xff\xff")),
    "a negative iat": payload_of(iat=-1),
    "a float for exp": payload_of(exp=float(NOW + 600)),
    "text for exp": payload_of(exp=str(NOW + 600)),
    "a tagged exp": payload_of(exp=Raw(b"\xc1" + encode(NOW + 600))),
    "a longer form of exp": payload_of(exp=Raw(b"\x1b" + (NOW + 600).to_bytes(8, "big"))),
    "a longer form of the deadline": payload_of(
        deadline=Raw(b"\x1b" + (NOW + 3600).to_bytes(8, "big"))
    ),
    "a longer form of small times": payload_of(
        iat=Raw(b"\x1a\x00\x00\xff\xff"), exp=0x10000, deadline=0x10000
    ),
    "longer forms of three small times": payload_of(
        iat=Raw(b"\x1a\x00\x00\x00\x05"),
        exp=Raw(b"\x1a\x00\x00\x00\x05"),
        deadline=Raw(b"\x1a\x00\x00\x00\x05"),
    ),
    "a longer form of the round": payload_of(round=Raw(b"\x18\x05")),
    "a flow of 7": payload_of(flow=b"\x01" * 7),
    "a flow of 9": payload_of(flow=b"\x01" * 9),
    "a flow that is text": payload_of(flow="abcdefgh"),
    "a principal of 15": payload_of(principal=b"\x06" * 15),
    "a principal of 17": payload_of(principal=b"\x06" * 17),
    "a principal of 0": payload_of(principal=b""),
    "a principal that is text": payload_of(principal="a" * 16),
    "a request of two": payload_of(request=[1, "refund"]),
    "a request of four": payload_of(request=[1, "refund", b"\x05" * 16, None]),
    "a request without a digest": payload_of(request=[1, "refund", None]),
    "a digest of 15": payload_of(request=[1, "refund", b"\x05" * 15]),
    "a digest of 17": payload_of(request=[1, "refund", b"\x05" * 17]),
    "method 0": payload_of(request=[0, "refund", b"\x05" * 16]),
    "method 4": payload_of(request=[4, "refund", b"\x05" * 16]),
    "a known method as text": payload_of(request=["tools/call", "refund", b"\x05" * 16]),
    "a method that is bytes": payload_of(request=[b"tools/call", "refund", b"\x05" * 16]),
    "a target that is bytes": payload_of(request=[1, b"refund", b"\x05" * 16]),
    "a target that is not UTF-8": payload_of(request=[1, Raw(b"\x61\xff"), b"\x05" * 16]),
    "another order of the claims": encode(
        {4: NOW, 3: "billing", 6: NOW, -65537: [b"\x01" * 8, 1, NOW, None, None, None]}
    ),
    "a claim more": b"\xa5" + payload_of()[1:] + encode(7) + encode(b"id"),
    "the codec's payload": encode({3: "billing", 4: NOW, 6: NOW, -65538: [1, "t", b"", None, ""]}),
    "an indefinite map": b"\xbf" + payload_of()[1:] + b"\xff",
    "a tag before it": b"\xd8\x3d" + payload_of(),
    "nothing": b"",
}


@pytest.mark.parametrize("payload", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
@pytest.mark.parametrize("request_", [None, REQUEST], ids=["unbound", "bound"])
def test_every_other_shape_is_refused(payload: bytes, request_: bytes | None) -> None:
    # A flow or digest of another size shifts the state, which then does not decode.
    with pytest.raises(ValueError):  # noqa: PT011 - which of the shape's rules it is does not matter
        decode_state(decode_payload(payload).state)
    with pytest.raises(ValueError):  # noqa: PT011
        decode_state(read(LAYOUT, payload, request_).state)


def test_a_presented_request_is_taken_from_the_payload_only_where_it_stands_whole() -> None:
    payload = written(GOOD)
    assert read(LAYOUT, payload, REQUEST).request is REQUEST
    for other in ([1, "refund", b"\x04" * 16], [1, "refunds", b"\x05" * 16], [2, "", b"\x05" * 16]):
        assert read(LAYOUT, payload, encode(other)).request == REQUEST
    assert read(LAYOUT, written(GOOD._replace(request=None)), REQUEST).request is None


@pytest.mark.parametrize("size", [1, 23, 24, 255, 256, 65_535, 65_536])
def test_an_audience_of_any_length_has_its_head(size: int) -> None:
    claims = GOOD._replace(audience=b"a" * size)
    assert written(claims).startswith(b"\xa4\x03" + head(3, size) + b"a")
    assert read(Layout(claims.audience), written(claims), None) == claims


def test_an_audience_that_begins_alike_is_another() -> None:
    for other in (b"billin", b"billing2", b"Billing", b"billinG"):
        payload = written(GOOD._replace(audience=other))
        assert read(LAYOUT, payload, REQUEST).audience == other


def test_a_token_is_named_by_16_bytes_of_the_hash_of_its_message() -> None:
    assert token_id(b"message") == hashlib.sha256(b"message").digest()[:16].hex()
