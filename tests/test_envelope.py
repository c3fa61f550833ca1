"""COSE messages as exact bytes, and their one text form."""

import base64
import itertools
from typing import NamedTuple, cast

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox.envelope import (
    Envelope,
    from_text,
    protected_header,
    protected_of,
    start,
    start_of,
    to_text,
)
from tests.samples import ALGORITHMS, key, maker
from tests.vectors import independent
from tests.vectors.plain_cbor import RefusedError, encode

IV = b"\x07" * 12
PAYLOAD = b"the payload of a message"
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

each_alg = pytest.mark.parametrize("alg", ALGORITHMS)


def envelope(alg: str, kid: str = "key-1") -> Envelope:
    return Envelope(kid, alg, key(kid, alg).derive(alg))


class Parts(NamedTuple):
    encrypted: bool
    protected: bytes
    iv: bytes
    body: bytes
    tag: bytes


def parts_of(message: bytes) -> Parts:
    protected = protected_of(message)
    encrypted = message.startswith(b"\xd0")
    at = len(start(protected, encrypted=encrypted))
    if encrypted:
        body = cast("bytes", cbor2.loads(message[at + 12 :]))
        return Parts(encrypted, protected, message[at : at + 12], body, b"")
    body = cast("bytes", cbor2.loads(message[at:-34]))
    return Parts(encrypted, protected, b"", body, message[-32:])


def opened(alg: str, message: bytes) -> bytes | None:
    here = envelope(alg)
    return here.open(message)


# --- text ---------------------------------------------------------------------------------------


@given(message=st.binary(min_size=1, max_size=100))
def test_a_message_has_one_text_and_it_reads_back(message: bytes) -> None:
    token = to_text(message)
    assert token == independent.text_of(message)
    assert token.startswith("sb1.")
    assert set(token[4:]) <= set(ALPHABET)
    assert from_text(token) == message


@given(
    token=st.text(max_size=30)
    | st.text(ALPHABET + "+/=.\n !", max_size=12).map(lambda text: "sb1." + text)
)
def test_whatever_text_reads_is_the_text_of_what_was_read(token: str) -> None:
    try:
        message = from_text(token)
    except ValueError:
        with pytest.raises(RefusedError):
            independent.message_of(token)
    else:
        assert to_text(message) == token
        assert independent.message_of(token) == message


@pytest.mark.parametrize("size", [1, 2, 3, 4], ids=str)
def test_of_all_last_characters_only_those_with_zero_low_bits_are_taken(size: int) -> None:
    stem = to_text(bytes(range(200, 200 + size)))[:-1]
    taken = {last for last in ALPHABET if _reads(stem + last)}
    unused = {1: 4, 2: 2, 3: 0}.get(size % 3 or 3, 0)
    assert taken == {last for at, last in enumerate(ALPHABET) if at % (1 << unused) == 0}


def _reads(token: str) -> bool:
    try:
        from_text(token)
    except ValueError:
        return False
    return True


FOREIGN = [
    "=",
    "+",
    "/",
    "\n",
    "\r",
    " ",
    "\t",
    "\0",
    ".",
    "!",
    ",",
    "é",
    "\uff21",
    "\ud800",
    "\u200b",
]


@pytest.mark.parametrize("character", FOREIGN, ids=ascii)
def test_no_character_but_the_64_of_base64url_stands_anywhere(character: str) -> None:
    """A lenient decoder skips these, and then one message has many texts."""
    token = to_text(PAYLOAD)
    for at in range(len(token) + 1):
        for times in (1, 4):  # four, so that the length is one that base64url has
            with pytest.raises(ValueError):  # noqa: PT011 - whichever check comes first
                from_text(token[:at] + character * times + token[at:])
        if at < len(token) and token[at] != character:
            with pytest.raises(ValueError):  # noqa: PT011
                from_text(token[:at] + character + token[at + 1 :])


@pytest.mark.parametrize(
    "token",
    ["", "s", "sb1", "sb1.", "sb1.A", "SB1.AAAA", "sb2.AAAA", "v1.AAAA", " sb1.AAAA", "AAAA"],
)
def test_what_has_no_prefix_or_no_message_is_no_token(token: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whichever check comes first
        from_text(token)


# --- the frame ----------------------------------------------------------------------------------


@each_alg
@pytest.mark.parametrize("kid", ["k", "k" * 17, "k" * 18, "k" * 19, "k" * 32], ids=len)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 23, 24, 239, 240, 255, 256, 65_535, 65_536])
def test_a_message_of_any_size_is_the_bytes_of_the_format_page(
    alg: str, kid: str, size: int
) -> None:
    payload = bytes(size)
    message = envelope(alg, kid).seal(payload, IV)
    assert message == maker(kid, alg).message(payload, iv=IV)
    here = envelope(alg, kid)
    assert here.open(message) == payload
    assert start_of(message) == start(protected_header(kid, alg), encrypted=alg == "A256GCM")
    frame = parts_of(message)
    assert frame.encrypted is (alg == "A256GCM")
    assert frame.protected == encode({1: independent.ALGS[alg], 4: kid.encode()})
    assert (frame.iv, frame.tag) == ((IV, b"") if frame.encrypted else (b"", message[-32:]))


@each_alg
def test_every_single_bit_counts(alg: str) -> None:
    message = envelope(alg).seal(PAYLOAD, IV)
    for at, bit in itertools.product(range(len(message)), range(8)):
        flipped = bytearray(message)
        flipped[at] ^= 1 << bit
        _assert_refused(alg, bytes(flipped), f"bit {bit} of byte {at}")


@each_alg
def test_no_byte_can_be_taken_out_put_in_or_cut_off(alg: str) -> None:
    message = envelope(alg).seal(PAYLOAD, IV)
    for at in range(len(message)):
        _assert_refused(alg, message[:at], f"cut at {at}")
        _assert_refused(alg, message[:at] + message[at + 1 :], f"without byte {at}")
        _assert_refused(alg, message[:at] + b"\0" + message[at:], f"with a byte at {at}")
    _assert_refused(alg, message + b"\0", "with a byte at the end")


@pytest.mark.parametrize(
    ("alg", "other"),
    [
        ("A256GCM", b"\xa0"),
        ("A256GCM", b"\xa1\x06\x4c"),
        ("A256GCM", b"\xa1\x05\x4d"),
        ("A256GCM", b"\xa2\x05\x4c"),
        ("HS256", b"\xa1\x05\x4c"),
        ("HS256", b"\xa1"),
        ("HS256", b"\xbf"),
    ],
    ids=str,
)
def test_no_other_unprotected_header_is_taken(alg: str, other: bytes) -> None:
    message = envelope(alg).seal(PAYLOAD, IV)
    before = message[: len(start_of(message)) - (3 if alg == "A256GCM" else 1)]
    with pytest.raises(ValueError, match="another unprotected header"):
        protected_of(before + other + message[len(start_of(message)) :])


@each_alg
def test_a_header_is_sliced_out_of_a_whole_frame_only(alg: str) -> None:
    message = envelope(alg).seal(PAYLOAD, IV)
    assert protected_of(message) == protected_header("key-1", alg)
    for other in (*(message[:at] for at in range(len(message))), message + b"\0", message * 2):
        with pytest.raises(ValueError):  # noqa: PT011 - whichever part is cut
            protected_of(other)
    for first in (b"\xd2\x84", b"\xd1\x83", b"\xd0\x84", b"\x83\x43"):
        with pytest.raises(ValueError, match="neither"):
            protected_of(first + message[2:])


def _assert_refused(alg: str, message: bytes, how: str) -> None:
    if start_of(message) != start(protected_header("key-1", alg), encrypted=alg == "A256GCM"):
        return  # not found under this key at all: see test_sealer.py
    try:
        assert opened(alg, message) is None, how
    except ValueError:
        return


def bstr(data: bytes, info: int) -> bytes:
    """Encode a byte string with a head of a chosen width."""
    return bytes([0x40 | info]) + len(data).to_bytes(1 << info - 24, "big") + data


@each_alg
@pytest.mark.parametrize("info", [24, 25, 26, 27])
def test_a_length_in_a_longer_form_is_refused_wherever_it_stands(alg: str, info: int) -> None:
    message = envelope(alg).seal(b"", IV)
    frame = parts_of(message)
    before = start_of(message) + frame.iv
    after = b"" if frame.encrypted else b"\x58\x20" + frame.tag
    assert before + encode(frame.body) + after == message
    with pytest.raises(ValueError, match="longer than needed"):
        opened(alg, before + bstr(frame.body, info) + after)
    protected = encode(frame.protected)
    with pytest.raises(ValueError, match="longer than needed"):
        protected_of(message.replace(protected, bstr(frame.protected, info)))


def test_an_encrypted_message_without_room_for_a_tag_is_refused() -> None:
    before = start_of(envelope("A256GCM").seal(PAYLOAD, IV)) + IV
    for size in range(16):
        with pytest.raises(ValueError, match="no room for 16 bytes"):
            opened("A256GCM", before + encode(bytes(size)))
        with pytest.raises(ValueError, match="no room for 16 bytes"):
            protected_of(before + encode(bytes(size)))
    assert opened("A256GCM", before + encode(bytes(16))) is None


@pytest.mark.parametrize("size", [0, 8, 16, 31, 33, 64])
def test_a_tag_of_another_length_is_refused(size: int) -> None:
    message = envelope("HS256").seal(PAYLOAD, IV)
    other = message[:-34] + encode(bytes(size))
    with pytest.raises(ValueError, match="no tag of 32 bytes"):
        opened("HS256", other)
    with pytest.raises(ValueError, match="no tag of 32 bytes"):
        protected_of(other)


ANY_BYTES = st.binary(max_size=80) | st.builds(
    bytes.__add__,
    st.sampled_from([b"\xd0\x83", b"\xd1\x84", b"\xd0\x83\x44\xa2\x01\x03\x04"]),
    st.binary(),
)


@each_alg
@given(rest=st.binary(max_size=60), size=st.integers(0, 40), width=st.integers(0, 3))
def test_the_frame_under_a_known_key_is_the_frame_under_any_key(
    alg: str, rest: bytes, size: int, width: int
) -> None:
    """It is checked in two places: once for speed."""
    here = envelope(alg)
    before = start(protected_header("key-1", alg), encrypted=here.encrypted)
    length = bytes([0x40 | size]) if width == 0 else bstr(bytes(size), 23 + width)[: -size or None]
    for message in (before + rest, before + IV + length + rest, before + length + rest):
        refused: list[bool] = []
        for check in (here.open, protected_of):
            try:
                check(message)
            except ValueError:
                refused.append(True)
            else:
                refused.append(False)
        assert refused[0] == refused[1]


@given(message=ANY_BYTES)
def test_any_bytes_are_cut_into_the_parts_that_they_are_the_one_encoding_of(
    message: bytes,
) -> None:
    assert message.startswith(start_of(message))
    try:
        frame = parts_of(message)
    except ValueError:
        return
    rest = encode(frame.body) if frame.encrypted else encode(frame.body) + encode(frame.tag)
    assert start(frame.protected, encrypted=frame.encrypted) + frame.iv + rest == message


def test_the_iv_is_part_of_an_encrypted_message_only() -> None:
    assert envelope("A256GCM").seal(PAYLOAD, IV) != envelope("A256GCM").seal(PAYLOAD, bytes(12))
    assert envelope("HS256").seal(PAYLOAD, IV) == envelope("HS256").seal(PAYLOAD, bytes(12))


def test_what_one_key_sealed_no_other_key_opens() -> None:
    for alg in ALGORITHMS:
        message = Envelope("key-1", alg, bytes(32)).seal(PAYLOAD, IV)
        assert opened(alg, message) is None


def test_the_kid_is_authenticated_with_the_content() -> None:
    for alg in ALGORITHMS:
        content_key = key(alg=alg).derive(alg)
        other = Envelope("key-2", alg, content_key)
        message = Envelope("key-1", alg, content_key).seal(PAYLOAD, IV)
        moved = message.replace(b"key-1", b"key-2")
        assert other.open(moved) is None


def test_base64_of_the_standard_library_would_have_taken_what_is_refused_here() -> None:
    """Otherwise the cases above would prove nothing of ours."""
    text = to_text(PAYLOAD)[4:]
    assert base64.urlsafe_b64decode(text[:5] + "\n!" + text[5:] + "==") == PAYLOAD
