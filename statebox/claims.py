"""What a token says: a CWT claims map (RFC 8392) of one fixed layout, and the Continuation.

The layout is fixed up to the state, so it is written and read by position, without a general
decoder: `{3: aud, 4: exp, 6: iat, -65537: [flow, round, deadline, principal, request, state]}`.
Knows no keys and no clock.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple, NoReturn, final

from statebox.cbor import State, head, read_head

FLOW_BYTES: Final = 8
MAX_ROUND: Final = 65535
TIME_LIMIT: Final = 1 << 40  # seconds

_AUD: Final = b"\xa4\x03"
_EXP: Final = b"\x04"
_IAT: Final = b"\x06"
_CONTINUATION: Final = b"\x3a\x00\x01\x00\x00\x86\x48"  # -65537 => [flow of 8 bytes, ...
_NULL: Final = b"\xf6"
_BINDING: Final = b"\x50"  # a byte string of 16
_put: Final = object.__setattr__
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

    __slots__ = ("_claims", "_message", "key_id", "state")

    state: State
    key_id: str
    _claims: Claims
    _message: bytes

    def __init__(self, claims: Claims, state: State, key_id: str, message: bytes) -> None:
        _put(self, "_claims", claims)
        _put(self, "state", state)
        _put(self, "key_id", key_id)
        _put(self, "_message", message)

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

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Continuation is immutable; seal a new state with after= it")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a Continuation is immutable")

    def __reduce__(self) -> tuple[type[Continuation], tuple[Claims, State, str, bytes]]:
        return Continuation, (self._claims, self.state, self.key_id, self._message)


def token_id(message: bytes) -> str:
    """Name a token: the first 16 bytes of SHA-256 of its message, as hex (format, section 6)."""
    return hashlib.sha256(message).hexdigest()[:32]


def encode_payload(claims: Claims) -> bytes:
    """Write the payload of a token (format, section 4).

    Args:
        claims: Claims that hold together; the caller has checked them.

    Returns:
        The one encoding of these claims.
    """
    return b"%b%b%b\x04%b\x06%b%b%b%b%b%b%b%b" % (
        _AUD,
        head(0x60, len(claims.audience)),
        claims.audience,
        head(0, claims.expires_at),
        head(0, claims.issued_at),
        _CONTINUATION,
        claims.flow,
        head(0, claims.round),
        head(0, claims.deadline),
        _NULL if claims.principal is None else _BINDING + claims.principal,
        claims.request or _NULL,
        claims.state,
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
    at = _literal(payload, 0, _AUD)
    audience, at = _text(payload, at)
    expires_at, at = _time(payload, _literal(payload, at, _EXP))
    issued_at, at = _time(payload, _literal(payload, at, _IAT))
    start = _literal(payload, at, _CONTINUATION)
    at = start + FLOW_BYTES
    round_, after_round = read_head(payload, at, 0)
    deadline, at = _time(payload, after_round)
    principal, at = _binding(payload, at)
    request_start = at
    at = _request_end(payload, at)
    request = payload[request_start:at]
    if not (audience and 1 <= round_ <= MAX_ROUND and issued_at <= expires_at <= deadline):
        raise ValueError("the claims contradict each other")
    return Claims(
        audience,
        expires_at,
        issued_at,
        payload[start : start + FLOW_BYTES],
        round_,
        deadline,
        principal,
        None if request == _NULL else request,
        payload[at:],
    )


def _literal(payload: bytes, at: int, expected: bytes) -> int:
    if not payload.startswith(expected, at):
        raise ValueError("the payload has another layout")
    return at + len(expected)


def _text(payload: bytes, at: int) -> tuple[bytes, int]:
    length, start = read_head(payload, at, 0x60)
    text = payload[start : start + length]
    if len(text) != length:
        raise ValueError("the data ends early")
    text.decode()  # text is valid UTF-8, or a UnicodeDecodeError, which is a ValueError
    return text, start + length


def _time(payload: bytes, at: int) -> tuple[int, int]:
    value, at = read_head(payload, at, 0)
    if value >= TIME_LIMIT:
        raise ValueError("a time beyond 2^40")
    return value, at


def _binding(payload: bytes, at: int) -> tuple[bytes | None, int]:
    if payload.startswith(_NULL, at):
        return None, at + 1
    start = _literal(payload, at, _BINDING)
    if start + 16 > len(payload):
        raise ValueError("the data ends early")
    return payload[start : start + 16], start + 16


def _request_end(payload: bytes, at: int) -> int:
    if payload.startswith(_NULL, at):
        return at + 1
    at = _literal(payload, at, b"\x83")
    if payload[at : at + 1] in (b"\x01", b"\x02", b"\x03"):
        at += 1
    else:
        method, at = _text(payload, at)
        if method in _KNOWN_METHODS:
            raise ValueError("a known method is a number")
    _, at = _text(payload, at)
    digest, at = _binding(payload, at)
    if digest is None:
        raise ValueError("a request has a digest")
    return at
