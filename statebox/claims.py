"""What a token says: a CWT claims map (RFC 8392) of one fixed layout.

The layout is fixed up to the state, so it is written and read by position, without a general
decoder: `{3: aud, 4: exp, 6: iat, -65537: [flow, round, deadline, principal, request, state]}`.
Knows no keys and no clock.
"""

from __future__ import annotations

import hashlib
import struct
from hmac import compare_digest
from typing import Final, NamedTuple, TypeAlias, final

from statebox.cbor import head, read_head

FLOW_BYTES: Final = 8
MAX_ROUND: Final = 65535
TIME_LIMIT: Final = 1 << 40  # seconds

_AUD: Final = b"\xa4\x03"
_IAT32: Final = b"\x06\x1a"
_UINT32: Final = 0x1A
_CONTINUATION: Final = b"\x3a\x00\x01\x00\x00\x86\x48"  # -65537 => [flow of 8 bytes, ...
_NULL: Final = b"\xf6"
_BOUND_TO_NOTHING: Final = b"\xf6\xf6"
_BINDING: Final = b"\x50"  # a byte string of 16
_METHOD_NUMBERS: Final = frozenset({b"\x01", b"\x02", b"\x03"})
_KNOWN_METHODS: Final = frozenset({b"tools/call", b"prompts/get", b"resources/read"})


class Claims(NamedTuple):
    """The claims of one token, as they stand in its payload.

    Attributes:
        audience: UTF-8 bytes of the service's name.
        expires_at: Seconds since 1970.
        issued_at: Seconds since 1970.
        flow: 8 random bytes, the same in every round of a flow.
        round: 1 to 65535.
        deadline: When the whole flow ends, in seconds since 1970.
        principal: The 16 bytes the token is bound to, or None.
        request: The CBOR of `[method, target, digest]`, or None.
        state: CBOR of the state, not decoded yet.
    """

    audience: bytes
    expires_at: int
    issued_at: int
    flow: bytes
    round: int
    deadline: int
    principal: bytes | None
    request: bytes | None
    state: bytes


Fields: TypeAlias = tuple[bytes, int, int, bytes, int, int]
"""The first six fields of `Claims`: on the hot path a plain tuple, made in a tenth of the time."""

# Where they stand in it.
AUDIENCE: Final = 0
EXPIRES_AT: Final = 1
ISSUED_AT: Final = 2
FLOW: Final = 3
ROUND: Final = 4
DEADLINE: Final = 5

Decoded: TypeAlias = tuple[Fields, bytes | None, bytes | None, bytes]
"""A payload's fields, the principal and the request it is bound to, and its state's CBOR."""


def token_id(message: bytes) -> str:
    """Name a token: the first 16 bytes of SHA-256 of its message, as hex (format, section 6)."""
    return hashlib.sha256(message).hexdigest()[:32]


@final
class Layout:
    """Writes and reads the payloads of one service.

    Nearly always the times have 32 bits and the round is below 24. Then everything from the start
    to the deadline is one block of a known size, packed and unpacked in one step; any other
    widths take the general way. Both give the same claims for the same bytes.

    Args:
        audience: UTF-8 bytes of the service's name, not empty.
    """

    __slots__ = ("_block", "_start", "audience")

    def __init__(self, audience: bytes) -> None:
        self.audience = audience
        self._start = b"%b%b%b\x04\x1a" % (_AUD, head(0x60, len(audience)), audience)
        self._block = struct.Struct(f">{len(self._start)}sI2sI7s8sBBI")

    def encode(
        self,
        expires_at: int,
        issued_at: int,
        flow: bytes,
        round_: int,
        deadline: int,
        principal: bytes | None,
        request: bytes | None,
        state: bytes,
    ) -> bytes:
        """Write a payload (format, section 4).

        The arguments are those of `Claims`. They hold together: the caller has seen to that.

        Returns:
            The one encoding of these claims.
        """
        if issued_at > 0xFFFF and deadline < 0x1_0000_0000 and round_ < 24:
            block = self._block.pack(
                self._start,
                expires_at,
                _IAT32,
                issued_at,
                _CONTINUATION,
                flow,
                round_,
                _UINT32,
                deadline,
            )
        else:
            block = b"%b%b\x06%b%b%b%b%b" % (
                self._start[:-1],
                head(0, expires_at),
                head(0, issued_at),
                _CONTINUATION,
                flow,
                head(0, round_),
                head(0, deadline),
            )
        bound_to = _NULL if principal is None else _BINDING + principal
        return b"".join((block, bound_to, request or _NULL, state))

    def decode(self, payload: bytes, request: bytes | None) -> Decoded:
        """Read a payload, and refuse every shape but the one (format, section 4).

        Args:
            payload: Authenticated bytes.
            request: The CBOR of the request that was presented. Where the payload holds the very
                same bytes, its shape need not be looked at, and this object stands in the result.

        Returns:
            What it says; times and lengths hold together.

        Raises:
            ValueError: The bytes are not the one encoding of such claims.
        """
        at = self._block.size
        if at > len(payload):
            return _decoded(decode_payload(payload))
        start, exp, iat32, iat, label, flow, round_, uint32, deadline = self._block.unpack_from(
            payload
        )
        # A head of 32 bits for a number of 16 would be a second encoding; iat <= exp <= deadline,
        # so that iat says it of all three.
        if (
            start != self._start
            or iat32 != _IAT32
            or label != _CONTINUATION
            or uint32 != _UINT32
            or not (0 < round_ < 24 and 0xFFFF < iat <= exp <= deadline)
        ):
            return _decoded(decode_payload(payload))
        fields = (self.audience, exp, iat, flow, round_, deadline)
        if payload[at : at + 2] == _BOUND_TO_NOTHING:
            return fields, None, None, payload[at + 2 :]
        principal, at = _principal(payload, at)
        end = at + len(request) if request else at
        if request and compare_digest(payload[at:end], request):
            return fields, principal, request, payload[end:]
        sealed_with, at = _request(payload, at)
        return fields, principal, sealed_with, payload[at:]


def _decoded(claims: Claims) -> Decoded:
    return claims[:6], claims.principal, claims.request, claims.state


def decode_payload(payload: bytes) -> Claims:
    """Read the payload of a token, and refuse every other shape (format, section 4).

    Args:
        payload: Authenticated bytes.

    Returns:
        The claims; their times and lengths hold together, the state is not decoded.

    Raises:
        ValueError: The bytes are not the one encoding of such claims.
    """
    audience, at = _text(payload, _literal(payload, 0, _AUD))
    expires_at, at = read_head(payload, _literal(payload, at, b"\x04"), 0)
    issued_at, at = read_head(payload, _literal(payload, at, b"\x06"), 0)
    flow_at = _literal(payload, at, _CONTINUATION)
    flow = payload[flow_at : flow_at + FLOW_BYTES]
    round_, at = read_head(payload, flow_at + FLOW_BYTES, 0)
    deadline, at = read_head(payload, at, 0)
    principal, at = _principal(payload, at)
    request, at = _request(payload, at)
    if not (
        audience and 0 < round_ <= MAX_ROUND and issued_at <= expires_at <= deadline < TIME_LIMIT
    ):
        raise ValueError("the claims contradict each other")
    return Claims(
        audience, expires_at, issued_at, flow, round_, deadline, principal, request, payload[at:]
    )


def _literal(payload: bytes, at: int, expected: bytes) -> int:
    if not payload.startswith(expected, at):
        raise ValueError("the payload has another layout")
    return at + len(expected)


def _text(payload: bytes, at: int) -> tuple[bytes, int]:
    length, start = read_head(payload, at, 0x60)
    end = start + length
    if end > len(payload):
        raise ValueError("the data ends early")
    text = payload[start:end]
    text.decode()  # UnicodeDecodeError is a ValueError
    return text, end


def _principal(payload: bytes, at: int) -> tuple[bytes | None, int]:
    kind, end = payload[at : at + 1], at + 17
    if kind == _BINDING:  # cut short, it leaves no request to read
        return payload[at + 1 : end], end
    if kind != _NULL:
        raise ValueError("the payload has another layout")
    return None, at + 1


def _request(payload: bytes, at: int) -> tuple[bytes | None, int]:
    if payload[at : at + 1] == _NULL:
        return None, at + 1
    start = at
    at = _literal(payload, at, b"\x83")
    if payload[at : at + 1] in _METHOD_NUMBERS:
        at += 1
    else:
        method, at = _text(payload, at)
        if method in _KNOWN_METHODS:
            raise ValueError("a known method is a number")
    end = _literal(payload, _text(payload, at)[1], _BINDING) + 16
    return payload[start:end], end
