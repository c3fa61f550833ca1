"""The SDK's JSON claims as a compact CBOR map, and back to the same bytes (format, section 4).

JSON spends a third of a token on names, on escapes, and on base64 within base64. The map
`{? 3: aud, 4: exp, 6: iat, -65538: [method, target, digest, principal, state]}` says the same. It
is used only where it gives back byte for byte what came in; `{-65539: bytes}` carries all else.

Both have one layout, so they are written and read by position: a JSON or a CBOR parser takes
several times as long as the cipher.
"""

from __future__ import annotations

import json
import re
import struct
from binascii import a2b_base64, b2a_base64
from json.encoder import encode_basestring_ascii as _quoted
from math import isfinite
from typing import Final

from statebox.bindings import METHODS
from statebox.cbor import content_at, head, read_head

_WITHOUT_AUDIENCE: Final = b"\xa3"
_WITH_AUDIENCE: Final = b"\xa4\x03"
_EXPIRES_AT: Final = b"\x04"
_ISSUED_AT: Final = b"\x06"
_CONTINUATION: Final = b"\x3a\x00\x01\x00\x01\x85"  # -65538 => [5 members
_AS_THEY_CAME: Final = b"\xa1\x3a\x00\x01\x00\x02"  # {-65539 =>
_NULL: Final = b"\xf6"
_FLOAT: Final = b"\xfb"
_DOUBLE: Final = struct.Struct(">d")
_EXP_FLOAT: Final = _EXPIRES_AT + _FLOAT
_IAT_FLOAT: Final = _ISSUED_AT + _FLOAT
_TIMES: Final = struct.Struct(f">2sd2sd{len(_CONTINUATION)}s")

# INVARIANT: whatever matches has one reading, and each part of it one text: of a time and of an
# escaped text that is checked beside the part, all else can be written in no other way.
_TIME: Final = r"([-+.e\d]++)"
_TEXT: Final = r'"([ !#-\[\]-~]*+(?:\\.[ !#-\[\]-~]*+)*+)"'
# The SDK's 16 and 24 bytes, tried first for speed; then any canonical base64url.
_BASE64URL: Final = (
    r'"([\w-]{21}[AQgw]|[\w-]{32}|(?:[\w-]{4})*+(?:[\w-][AQgw]|[\w-]{2}[AEIMQUYcgkosw048])?)"'
)
_CLAIMS: Final = re.compile(
    rf'{{"v":1,"iat":{_TIME},"exp":{_TIME},"m":{_TEXT},"t":{_TEXT},"a":{_BASE64URL},"s":{_TEXT}'
    rf'(?:,"aud":{_TEXT})?(?:,"p":{_BASE64URL})?}}'.encode()
)
_BACKSLASH: Final = ord("\\")  # a number is found in bytes ten times as fast as bytes are
_TO_BASE64: Final = bytes.maketrans(b"-_", b"+/")
_TO_BASE64URL: Final = bytes.maketrans(b"+/", b"-_")
# A table of heads answers in a third of the time of `head`.
_SHORT_TEXT: Final = tuple(head(0x60, length) for length in range(256))
_SHORT_BYTES: Final = tuple(head(0x40, length) for length in range(256))

_METHOD_ITEMS: Final = {name.encode(): bytes((number,)) for name, number in METHODS.items()}
_METHOD_NAMES: Final = {bytes((number,)): f'"{name}"' for name, number in METHODS.items()}


def encode_claims(claims: bytes) -> bytes:
    """Write the SDK's claims as the payload of a token.

    Args:
        claims: What the SDK gave its codec to seal; any other bytes are carried as they are.

    Returns:
        The payload, from which `decode_claims` gives back the same bytes.
    """
    # So a later SDK with other claims loses compactness, and never a claim.
    match = _CLAIMS.fullmatch(claims)
    if match is not None:
        issued_at, expires_at, method, target, digest, state, audience, principal = match.groups()
        try:
            return b"".join(
                (
                    _WITHOUT_AUDIENCE if audience is None else _WITH_AUDIENCE + _text(audience),
                    _EXPIRES_AT,
                    _time(expires_at),
                    _ISSUED_AT,
                    _time(issued_at),
                    _CONTINUATION,
                    _METHOD_ITEMS.get(method) or _text(method),
                    _text(target),
                    _bytes(digest),
                    _NULL if principal is None else _bytes(principal),
                    _text(state),
                )
            )
        except ValueError:
            pass
    return b"%b%b%b" % (_AS_THEY_CAME, head(0x40, len(claims)), claims)


def _time(text: bytes) -> bytes:
    if text.isdigit():
        number = int(text)
        if number >> 64 or b"%d" % number != text:
            raise ValueError("beyond 64 bits, or a zero too many")
        return head(0, number)
    value = float(text)
    if repr(value).encode() != text:
        raise ValueError("another text of this number")
    return _FLOAT + _DOUBLE.pack(value)


def _text(quoted: bytes) -> bytes:
    text = _unescaped(quoted) if _BACKSLASH in quoted else quoted
    return (_SHORT_TEXT[len(text)] if len(text) < 256 else head(0x60, len(text))) + text


def _unescaped(quoted: bytes) -> bytes:
    # The commonest escape by far: a state is JSON most of the time.
    text = quoted.replace(b'\\"', b'"')
    if _BACKSLASH not in text:
        return text
    literal = f'"{quoted.decode()}"'
    value: str = json.loads(literal)
    if _quoted(value) != literal:
        raise ValueError("another escape of this text")
    return value.encode()  # a lone surrogate: UnicodeEncodeError is a ValueError


def _bytes(base64url: bytes) -> bytes:
    # More padding than needed is ignored.
    data = a2b_base64(base64url.translate(_TO_BASE64) + b"==")
    return (_SHORT_BYTES[len(data)] if len(data) < 256 else head(0x40, len(data))) + data


def decode_claims(payload: bytes) -> bytes:
    """Give back the SDK's claims from the payload of a token.

    Args:
        payload: Authenticated bytes.

    Returns:
        The bytes that `encode_claims` was given.

    Raises:
        ValueError: The payload is neither of the two shapes, as a native token's is not.
    """
    if payload.startswith(_AS_THEY_CAME):
        return payload[content_at(payload, len(_AS_THEY_CAME), len(payload), 0x40) :]
    audience, at = _read_audience(payload)
    issued_at, expires_at, at = _read_times(payload, at)
    method, at = _read_method(payload, at)
    target, at = _read_text(payload, at)
    digest, principal, at = _read_bindings(payload, at)
    state = payload[content_at(payload, at, len(payload), 0x60) :].decode()
    return (
        f'{{"v":1,"iat":{issued_at},"exp":{expires_at},"m":{method},"t":{target},"a":"{digest}",'
        f'"s":{_quoted(state)}{audience}{principal}}}'
    ).encode()


def _read_audience(payload: bytes) -> tuple[str, int]:
    if payload.startswith(_WITH_AUDIENCE):
        audience, at = _read_text(payload, len(_WITH_AUDIENCE))
        return f',"aud":{audience}', at
    return "", _literal(payload, 0, _WITHOUT_AUDIENCE)


def _read_times(payload: bytes, at: int) -> tuple[str, str, int]:
    end = at + _TIMES.size
    if end <= len(payload):
        # The SDK's two floats: one block, unpacked in one step.
        exp_head, exp, iat_head, iat, continuation = _TIMES.unpack_from(payload, at)
        heads = exp_head == _EXP_FLOAT and iat_head == _IAT_FLOAT
        if heads and continuation == _CONTINUATION and isfinite(exp) and isfinite(iat):
            return repr(iat), repr(exp), end
    expires_at, at = _read_time(payload, _literal(payload, at, _EXPIRES_AT))
    issued_at, at = _read_time(payload, _literal(payload, at, _ISSUED_AT))
    return issued_at, expires_at, _literal(payload, at, _CONTINUATION)


def _read_time(payload: bytes, at: int) -> tuple[str, int]:
    if not payload.startswith(_FLOAT, at):
        number, at = read_head(payload, at, 0)
        return str(number), at
    end = at + 1 + _DOUBLE.size
    if end > len(payload):
        raise ValueError("the data ends early")
    (value,) = _DOUBLE.unpack_from(payload, at + 1)
    if not isfinite(value):
        raise ValueError("a time that is not finite")
    return repr(value), end


def _read_method(payload: bytes, at: int) -> tuple[str, int]:
    known = _METHOD_NAMES.get(payload[at : at + 1])
    if known:
        return known, at + 1
    name, at = _read_text(payload, at)
    if name[1:-1] in METHODS:
        raise ValueError("a known method is a number")
    return name, at


def _read_bindings(payload: bytes, at: int) -> tuple[str, str, int]:
    end = at + 43
    if payload.startswith(b"\x50", at) and payload.startswith(b"\x58\x18", at + 17):
        # The SDK's 16 and 24 bytes: with two more between them they are one run of base64url.
        both = _base64url(b"%b\0\0%b" % (payload[at + 1 : at + 17], payload[at + 19 : end]))
        return both[:22], f',"p":"{both[24:]}"', end
    digest, at = _string(payload, at, 0x40)
    if payload.startswith(_NULL, at):
        return _base64url(digest), "", at + 1
    principal, at = _string(payload, at, 0x40)
    return _base64url(digest), f',"p":"{_base64url(principal)}"', at


def _read_text(payload: bytes, at: int) -> tuple[str, int]:
    text, at = _string(payload, at, 0x60)
    return _quoted(text.decode()), at


def _string(payload: bytes, at: int, major: int) -> tuple[bytes, int]:
    length, start = read_head(payload, at, major)
    # What is cut short here is refused by what reads on: beyond the end there is nothing.
    return payload[start : start + length], start + length


def _literal(payload: bytes, at: int, expected: bytes) -> int:
    if not payload.startswith(expected, at):
        raise ValueError("other claims, or in another order")
    return at + len(expected)


def _base64url(data: bytes) -> str:
    return b2a_base64(data, newline=False).translate(_TO_BASE64URL).rstrip(b"=").decode()
