"""The SDK's JSON claims as a compact CBOR map, and back to the same bytes (format, section 4).

JSON spends a third of a token on names, on escapes, and on base64 within base64. The map
`{? 3: aud, 4: exp, 6: iat, -65538: [method, target, digest, principal, state]}` says the same. It
is used only where it gives back byte for byte what came in; `{-65539: bytes}` carries all else.
"""

from __future__ import annotations

import base64
import json
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, Final, TypeVar

from statebox.bindings import METHODS
from statebox.cbor import State, decode_state, encode_state

_AUDIENCE: Final = 3
_EXPIRES_AT: Final = 4
_ISSUED_AT: Final = 6
_CONTINUATION: Final = -65538
_AS_THEY_CAME: Final = -65539

_METHOD_NAMES: Final = {number: f'"{method}"' for method, number in METHODS.items()}
_WITHOUT_AUDIENCE: Final = (_EXPIRES_AT, _ISSUED_AT, _CONTINUATION)
_WITH_AUDIENCE: Final = (_AUDIENCE, *_WITHOUT_AUDIENCE)

_T = TypeVar("_T")


def encode_claims(claims: bytes) -> bytes:
    """Write the SDK's claims as the payload of a token.

    Args:
        claims: What the SDK gave its codec to seal; any other bytes are carried as they are.

    Returns:
        The payload, from which `decode_claims` gives back the same bytes.
    """
    try:
        members = _members(json.loads(claims.decode("ascii")))
        # INVARIANT: the map is used only where it gives back what came in, byte for byte; so a
        # later SDK with other claims loses compactness, and never a claim.
        if _json(members) == claims:
            return encode_state(members)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return encode_state({_AS_THEY_CAME: claims})


def decode_claims(payload: bytes) -> bytes:
    """Give back the SDK's claims from the payload of a token.

    Args:
        payload: Authenticated bytes.

    Returns:
        The bytes that `encode_claims` was given.

    Raises:
        ValueError: The payload is neither of the two shapes, as a native token's is not.
    """
    return _json(decode_state(payload))


def _members(claims: Any) -> dict[str | int, State]:  # noqa: ANN401 - parsed JSON; _json checks it
    method = claims["m"]
    members: dict[str | int, State] = {} if "aud" not in claims else {_AUDIENCE: claims["aud"]}
    members[_EXPIRES_AT] = claims["exp"]
    members[_ISSUED_AT] = claims["iat"]
    members[_CONTINUATION] = [
        METHODS.get(method, method),
        claims["t"],
        _from_base64url(claims["a"]),
        _from_base64url(claims["p"]) if "p" in claims else None,
        claims["s"],
    ]
    return members


def _json(members: State) -> bytes:
    if type(members) is not dict:
        raise ValueError("not a map")
    keys = tuple(members)
    if keys == (_AS_THEY_CAME,):
        return _typed(members[_AS_THEY_CAME], bytes)
    if keys not in (_WITH_AUDIENCE, _WITHOUT_AUDIENCE):
        raise ValueError("other claims, or in another order")
    continuation = members[_CONTINUATION]
    if type(continuation) is not list:
        raise ValueError("not a continuation")
    # Another number of members is a ValueError by itself.
    method, target, digest, principal, state = continuation
    audience = f',"aud":{_text(members[_AUDIENCE])}' if len(keys) == len(_WITH_AUDIENCE) else ""
    bound_to = "" if principal is None else f',"p":{_base64url(principal)}'
    # Written by hand: the SDK's members have one order, and a JSON encoder takes as long as AES.
    return (
        f'{{"v":1,"iat":{_time(members[_ISSUED_AT])!r},"exp":{_time(members[_EXPIRES_AT])!r},'
        f'"m":{_method(method)},"t":{_text(target)},"a":{_base64url(digest)},"s":{_text(state)}'
        f"{audience}{bound_to}}}"
    ).encode("ascii")


def _method(value: State) -> str:
    if type(value) is int:
        if value not in _METHOD_NAMES:
            raise ValueError("a method of another number")
        return _METHOD_NAMES[value]
    method = _typed(value, str)
    if method in METHODS:
        raise ValueError("a known method is a number")
    return _quoted(method)


def _text(value: State) -> str:
    return _quoted(_typed(value, str))


def _time(value: State) -> int | float:
    if type(value) is int and 0 <= value < 1 << 64:
        return value
    return _typed(value, float)


def _typed(value: State, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise ValueError("a claim of another type")
    return value


def _base64url(value: State) -> str:
    data = base64.urlsafe_b64encode(_typed(value, bytes))
    return f'"{data.rstrip(b"=").decode("ascii")}"'


def _from_base64url(text: str) -> bytes:
    # Lenient: what is not canonical does not come back the same, and is carried as it came.
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
