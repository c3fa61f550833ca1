"""What to throw: CBOR that is nearly right, tokens that are nearly authentic, and any text."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from tests.samples import maker
from tests.states import any_text, integers, states
from tests.vectors.forge import payload_of
from tests.vectors.independent import text_of
from tests.vectors.plain_cbor import Raw, encode

_TAGS: Final = [
    0,
    1,
    2,
    3,
    4,
    5,
    24,
    25,
    28,
    29,
    30,
    35,
    36,
    37,
    52,
    54,
    100,
    256,
    258,
    260,
    261,
    1004,
    43000,
    55799,
]


@st.composite
def heads(draw: st.DrawFn, major: int, value: int) -> bytes:
    """Draw a head: nearly always the shortest, now and then longer, indefinite or reserved."""
    if draw(st.integers(0, 9)):
        return (
            encode(value)
            if major == 0
            else bytes([encode(value)[0] | major << 5]) + encode(value)[1:]
        )
    info = draw(st.sampled_from([24, 25, 26, 27, 28, 31]))
    if info > 27:
        return bytes([major << 5 | info])
    size = 1 << info - 24
    return bytes([major << 5 | info]) + (value % (1 << 8 * size)).to_bytes(size, "big")


@st.composite
def scalars(draw: st.DrawFn) -> bytes:
    """Draw a number, a string, a simple value or a float, not always well formed."""
    major = draw(st.sampled_from([0, 1, 2, 3, 7]))
    if major < 2:
        return draw(heads(major, draw(st.integers(0, (1 << 64) - 1) | st.integers(0, 30))))
    if major == 7:
        wide = st.binary(min_size=8, max_size=8).map(b"\xfb".__add__)
        narrow = st.binary(min_size=2, max_size=2).map(b"\xf9".__add__)
        simple = st.integers(0xE0, 0xFF).map(lambda byte: bytes([byte]))
        return draw(wide | narrow | simple | st.sampled_from([b"\xf8\xff", b"\xf8\x14"]))
    data = draw(st.binary(max_size=12) if major == 2 else any_text.map(_utf8))
    return draw(heads(major, len(data) + draw(st.sampled_from([0] * 9 + [1])))) + data


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@st.composite
def _inside(draw: st.DrawFn, items: st.SearchStrategy[bytes]) -> bytes:
    major = draw(st.sampled_from([4, 4, 5, 5, 6]))
    if major == 6:
        return draw(heads(6, draw(st.sampled_from(_TAGS)))) + draw(items)
    count = draw(st.integers(0, 4))
    inner = [draw(items) for _ in range(count * (major - 3))]
    return draw(heads(major, count)) + b"".join(inner)


cbor: Final = st.recursive(scalars(), _inside, max_leaves=10)
"""CBOR items, most of them well formed, of every major type."""

_ODD: Final = st.one_of(
    [
        cbor.map(Raw),
        st.none(),
        st.booleans(),
        integers,
        st.floats(),
        st.text(max_size=20),
        st.binary(max_size=20),
        st.integers(1_789_999_000, 1_790_005_000),
    ]
)


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Draw a payload with up to three odd claims, or a byte changed, or no payload at all."""
    if not draw(st.integers(0, 9)):
        return draw(st.binary(max_size=200) | cbor)
    names = ["aud", "exp", "iat", "flow", "round", "deadline", "principal", "request", "state"]
    claims = {name: draw(_ODD) for name in draw(st.lists(st.sampled_from(names), max_size=3))}
    try:
        payload = payload_of(**{"state": draw(states)} | claims)
    except UnicodeEncodeError:
        payload = payload_of()
    return draw(st.just(payload) | patched(payload))


def patched(data: bytes) -> st.SearchStrategy[bytes]:
    """Draw bytes with a stretch of up to four replaced by up to four."""
    return st.builds(
        _patch,
        st.just(data),
        st.integers(0, len(data)),
        st.integers(0, 4),
        st.binary(max_size=4),
    )


def _patch(data: bytes, at: int, size: int, patch: bytes) -> bytes:
    return data[:at] + patch + data[at + size :]


@st.composite
def tokens(draw: st.DrawFn) -> str:
    """Draw a token: authentic with any payload, or with a changed message or text; or any text."""
    alg = draw(st.sampled_from(["A256GCM", "HS256"]))
    if not draw(st.integers(0, 9)):
        return draw(st.text(max_size=100) | any_text.map("sb1.".__add__))
    message = maker(alg=alg).message(draw(payloads()), iv=draw(st.binary(min_size=12, max_size=12)))
    if not draw(st.integers(0, 2)):
        message = draw(patched(message))
    token = text_of(message)
    if not draw(st.integers(0, 4)):
        token = draw(st.builds(_patch_text, st.just(token), st.integers(0, len(token)), any_text))
    return token


def _patch_text(token: str, at: int, patch: str) -> str:
    return token[:at] + patch[:3] + token[at + len(patch[:2]) :]
