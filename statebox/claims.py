"""What a token says: a CWT claims map (RFC 8392) of one fixed layout, and the Continuation.

The layout is fixed up to the state, so it is written and read by position, without a general
decoder: `{3: aud, 4: exp, 6: iat, -65537: [flow, round, deadline, principal, request, state]}`.
Knows no keys and no clock.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final, NamedTuple, final

from statebox.cbor import State, head, read_head

FLOW_BYTES: Final = 8
MAX_ROUND: Final = 65535
TIME_LIMIT: Final = 1 << 40  # seconds

_AUD: Final = b"\xa4\x03"
_EXP32: Final = b"\x04\x1a"
_IAT32: Final = b"\x06\x1a"
_UINT32: Final = 0x1A
_CONTINUATION: Final = b"\x3a\x00\x01\x00\x00\x86\x48"  # -65537 => [flow of 8 bytes, ...
_NUMBERS: Final = struct.Struct(">2sI2sI7s8sBBI")  # from exp to deadline, at their usual widths
_NULL: Final = b"\xf6"
_BINDING: Final = b"\x50"  # a byte string of 16
_NO_NUMBERS: Final = (b"", 0, b"", 0, b"", b"", 0, 0, 0)
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


@final
class Continuation:
    """A server's half-finished work, out of a token whose every check held. Immutable.

    Attributes:
        state: What was sealed, equal to what went in.
        key_id: The kid of the key that sealed it.
        flow: 16 hex digits, random, the same in every round of one flow.
        round: 1 in the first token of a flow.
        issued_at: When this round was sealed, in seconds since 1970.
        expires_at: When this round's token ends, in seconds since 1970.
        deadline: When the whole flow ends, in seconds since 1970.
        token_id: 32 hex digits that name this token, for logs and for single use.
        audience: The service it was sealed for.
    """

    __slots__ = ("_claims", "_key_id", "_message", "_state")

    def __init__(self, claims: Claims, state: State, key_id: str, message: bytes) -> None:
        self._claims = claims
        self._state = state
        self._key_id = key_id
        self._message = message

    # Read-only properties make it immutable; nothing is computed before somebody asks.

    @property
    def state(self) -> State:
        """What was sealed, equal to what went in."""
        return self._state

    @property
    def key_id(self) -> str:
        """The kid of the key that sealed it."""
        return self._key_id

    @property
    def flow(self) -> str:
        """16 hex digits, random, the same in every round of one flow."""
        return self._claims.flow.hex()

    @property
    def round(self) -> int:
        """1 in the first token of a flow."""
        return self._claims.round

    @property
    def issued_at(self) -> int:
        """When this round was sealed, in seconds since 1970."""
        return self._claims.issued_at

    @property
    def expires_at(self) -> int:
        """When this round's token ends, in seconds since 1970."""
        return self._claims.expires_at

    @property
    def deadline(self) -> int:
        """When the whole flow ends, in seconds since 1970."""
        return self._claims.deadline

    @property
    def audience(self) -> str:
        """The service it was sealed for."""
        return self._claims.audience.decode()

    @property
    def token_id(self) -> str:
        """32 hex digits that name this token, for logs and for single use."""
        return token_id(self._message)

    # A state may hold what the user told the server; it is printed only by who asks for `.state`.
    def __repr__(self) -> str:
        return f"<Continuation flow={self.flow} round={self.round} key_id={self.key_id}>"


def token_id(message: bytes) -> str:
    """Name a token: the first 16 bytes of SHA-256 of its message, as hex (format, section 6)."""
    return hashlib.sha256(message).hexdigest()[:32]


def encode_payload(
    audience: bytes,
    expires_at: int,
    issued_at: int,
    flow: bytes,
    round_: int,
    deadline: int,
    principal: bytes | None,
    request: bytes | None,
    state: bytes,
) -> bytes:
    """Write the payload of a token (format, section 4).

    The arguments are those of `Claims`, in its order. They hold together: the caller has seen to
    that.

    Returns:
        The one encoding of these claims.
    """
    if issued_at > 0xFFFF and deadline < 0x1_0000_0000 and round_ < 24:
        numbers = _NUMBERS.pack(
            _EXP32, expires_at, _IAT32, issued_at, _CONTINUATION, flow, round_, _UINT32, deadline
        )
    else:
        numbers = b"\x04%b\x06%b%b%b%b%b" % (
            head(0, expires_at),
            head(0, issued_at),
            _CONTINUATION,
            flow,
            head(0, round_),
            head(0, deadline),
        )
    return b"%b%b%b%b%b%b%b" % (
        _AUD,
        head(0x60, len(audience)),
        audience,
        numbers,
        _NULL if principal is None else _BINDING + principal,
        _NULL if request is None else request,
        state,
    )


def decode_payload(payload: bytes) -> Claims:
    """Read the payload of a token, and refuse every other shape (format, section 4).

    Args:
        payload: Authenticated bytes.

    Returns:
        The claims; their times and lengths hold together, the state is not decoded.

    Raises:
        ValueError: The bytes are not the one encoding of such claims.
    """
    if not payload.startswith(_AUD):
        raise ValueError("the payload has another layout")
    audience, at = _text(payload, len(_AUD))
    usual = _NUMBERS.unpack_from(payload, at) if at + _NUMBERS.size <= len(payload) else _NO_NUMBERS
    exp32, expires_at, iat32, issued_at, label, flow, round_, uint32, deadline = usual
    # Nearly always the times have 32 bits and the round is below 24: one fixed block. A head of
    # 32 bits for a number of 16 would be a second encoding.
    if (
        exp32 == _EXP32
        and iat32 == _IAT32
        and label == _CONTINUATION
        and round_ < 24
        and uint32 == _UINT32
        and issued_at > 0xFFFF
    ):
        at += _NUMBERS.size
    else:
        expires_at, issued_at, flow, round_, deadline, at = _rare_numbers(payload, at)
    principal = request = None
    if payload[at : at + 1] == _NULL:
        at += 1
    else:
        principal_at = _literal(payload, at, _BINDING)
        at = principal_at + 16
        principal = payload[principal_at:at]
    if payload[at : at + 1] == _NULL:
        at += 1
    else:
        request_at = at
        at = _request_end(payload, at)
        request = payload[request_at:at]
    # INVARIANT: the times and the round hold together; iat <= exp <= deadline, so that one head of
    # the usual width says it of all three.
    if not (audience and 0 < round_ <= MAX_ROUND and issued_at <= expires_at <= deadline < TIME_LIMIT):
        raise ValueError("the claims contradict each other")
    return tuple.__new__(  # a third of the time of Claims(...)
        Claims,
        (audience, expires_at, issued_at, flow, round_, deadline, principal, request, payload[at:]),
    )


def _rare_numbers(payload: bytes, at: int) -> tuple[int, int, bytes, int, int, int]:
    expires_at, at = read_head(payload, _literal(payload, at, b"\x04"), 0)
    issued_at, at = read_head(payload, _literal(payload, at, b"\x06"), 0)
    flow_at = _literal(payload, at, _CONTINUATION)
    at = flow_at + FLOW_BYTES
    round_, deadline_at = read_head(payload, at, 0)
    deadline, end = read_head(payload, deadline_at, 0)
    return expires_at, issued_at, payload[flow_at:at], round_, deadline, end


def _literal(payload: bytes, at: int, expected: bytes) -> int:
    if not payload.startswith(expected, at):
        raise ValueError("the payload has another layout")
    return at + len(expected)


def _text(payload: bytes, at: int) -> tuple[bytes, int]:
    first = payload[at] if at < len(payload) else 0
    if 0x60 <= first < 0x78:  # shorter than 24 bytes, as names are
        end = at + first - 0x5F
        text = payload[at + 1 : end]
    else:
        length, start = read_head(payload, at, 0x60)
        end = start + length
        text = payload[start:end]
    if end > len(payload):
        raise ValueError("the data ends early")
    text.decode()  # UnicodeDecodeError is a ValueError
    return text, end


def _request_end(payload: bytes, at: int) -> int:
    at = _literal(payload, at, b"\x83")
    if payload[at : at + 1] in _METHOD_NUMBERS:
        at += 1
    else:
        method, at = _text(payload, at)
        if method in _KNOWN_METHODS:
            raise ValueError("a known method is a number")
    return _literal(payload, _text(payload, at)[1], _BINDING) + 16
