"""What a token is bound to: the principal it was sealed for, and the request it belongs to.

Both become short fixed-size bytes (format, section 5). Principals pass through a keyed hash, so
that a readable token does not tell who its user is.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Mapping, Sequence
from hmac import HMAC
from operator import itemgetter
from typing import Any, Final, NoReturn, Self, TypeAlias, cast, final

import cbor2

from statebox.cbor import MAX_DEPTH, head
from statebox.keys import Key

Principal: TypeAlias = str | Sequence[str]
"""Who a token is for: one text, or several parts such as (issuer, subject, client_id)."""

METHODS: Final = {"tools/call": 1, "prompts/get": 2, "resources/read": 3}
BINDING_BYTES: Final = 16

_NAN: Final = b"\xf9\x7e\x00"
_INFINITIES: Final = {float("inf"): b"\xf9\x7c\x00", float("-inf"): b"\xf9\xfc\x00"}


@final
class Request:
    """The request that a token belongs to: method, target, and a digest of the arguments.

    Args:
        method: The JSON-RPC method, as `"tools/call"`.
        target: The tool's or prompt's name, or the resource's uri.
        arguments: The arguments as JSON gave them; None, absent and `{}` are the same.

    Raises:
        TypeError: The method or the target is not text, or an argument is of no JSON type.
        ValueError: The arguments are nested deeper than 64 levels, or method or target hold a lone
            surrogate, which no token can carry.
    """

    __slots__ = ("cbor", "digest", "method", "target")

    method: str
    target: str
    digest: bytes
    cbor: bytes

    def __init__(
        self, method: str, target: str, arguments: Mapping[str, Any] | None = None
    ) -> None:
        if type(method) is not str or type(target) is not str:
            raise TypeError("a Request's method and target are text")
        if not isinstance(cast("object", arguments), Mapping | None):
            raise TypeError("a Request's arguments are a map")
        for text in (method, target):
            text.encode()  # UnicodeEncodeError is a ValueError
        digest = hashlib.sha256(normalized(arguments or {})).digest()[:BINDING_BYTES]
        put = object.__setattr__
        put(self, "method", method)
        put(self, "target", target)
        put(self, "digest", digest)
        put(
            self,
            "cbor",
            b"\x83%b%b\x50%b" % (_method_cbor(method), _text_cbor(target), digest),
        )

    @classmethod
    def from_params(cls, method: str, params: Mapping[str, Any] | None) -> Self:
        """Take method, target and arguments from a JSON-RPC request.

        Args:
            method: The JSON-RPC method.
            params: Its params; for `resources/read` the target is `uri`, for all others `name`
                with `arguments`. Nothing else of the params enters the digest.

        Returns:
            The request.

        Raises:
            TypeError: A member is of the wrong type.
            ValueError: The arguments are nested deeper than 64 levels.
        """
        if not isinstance(cast("object", params), Mapping | None):
            raise TypeError("a request's params are a map")
        members = params or {}
        if method == "resources/read":
            return cls(method, members.get("uri", ""))
        return cls(method, members.get("name", ""), members.get("arguments"))

    def __eq__(self, other: object) -> bool:
        return self.cbor == other.cbor if isinstance(other, Request) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.cbor)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Request is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a Request is immutable")

    def __setstate__(self, state: tuple[None, dict[str, object]]) -> None:
        # How a copy or a pickle fills the slots, past __setattr__.
        for name, value in state[1].items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Request({self.method!r}, {self.target!r}, digest={self.digest.hex()})"


def principal_cbor(principal: Principal) -> bytes:
    """Encode a principal as the CBOR array of its text parts.

    Args:
        principal: One text, or a sequence of texts.

    Returns:
        Bytes that are the same for the same parts only: an array, so that the parts' borders count.

    Raises:
        TypeError: It is neither, or a part is not text.
    """
    parts: object = (principal,) if isinstance(principal, str) else principal
    if not isinstance(parts, list | tuple):
        raise TypeError("a principal is text or a list of texts; pass None to bind to nobody")
    items = [_text_cbor(part) for part in cast("list[object]", parts) if isinstance(part, str)]
    if len(items) != len(cast("list[object]", parts)):
        raise TypeError("every part of a principal is text")
    return head(0x80, len(items)) + b"".join(items)


def principal_mac(key: Key) -> HMAC:
    """Prepare a key's principal hash once; `principal_tag` copies it for every use."""
    return hmac.new(key.derive("principal"), digestmod="sha256")


def principal_tag(mac: HMAC, principal: Principal) -> bytes:
    """Hash a principal under the key that seals the token (format, section 5).

    Args:
        mac: From `principal_mac`.
        principal: One text, or a sequence of texts.

    Returns:
        16 bytes.

    Raises:
        TypeError: The principal is neither.
    """
    mac = mac.copy()
    mac.update(principal_cbor(principal))
    return mac.digest()[:BINDING_BYTES]


def normalized(value: object) -> bytes:
    """Encode JSON-like arguments so that equal ones give equal bytes (format, section 5).

    Args:
        value: null, bool, int, float, str, bytes, list, tuple or a map with text keys.

    Returns:
        Deterministic CBOR (RFC 8949 §4.2.1), where numbers that are equal are one number.

    Raises:
        TypeError: A value is of another type.
        ValueError: It is nested deeper than 64 levels.
    """
    out: list[bytes] = []
    _append(out, value, MAX_DEPTH)
    return b"".join(out)


def _append(out: list[bytes], value: object, room: int) -> None:
    kind = type(value)
    if kind is str:
        out.append(_text_cbor(cast("str", value)))
    elif kind is int:
        number = cast("int", value)
        out.append(head(0, number) if 0 <= number < 1 << 32 else cbor2.dumps(number))
    elif value is None:
        out.append(b"\xf6")
    elif kind is bool:
        out.append(b"\xf5" if value else b"\xf4")
    elif kind is float:
        out.append(_number(cast("float", value)))
    # INVARIANT: depth is checked before anything is encoded; the arguments are the client's, and
    # an encoder that recurses on them would take the process down.
    elif room == 0:
        raise ValueError(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    elif isinstance(value, Mapping):
        _append_map(out, cast("Mapping[object, object]", value), room)
    elif isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        out.append(head(0x80, len(items)))
        for item in items:
            _append(out, item, room - 1)
    else:
        _append_rare(out, value)


def _append_map(out: list[bytes], members: Mapping[object, object], room: int) -> None:
    if not all(isinstance(key, str) for key in members):
        raise TypeError("a map in the arguments has text keys")
    out.append(head(0xA0, len(members)))
    # RFC 8949 §4.2.1: the bytewise order of the encoded keys.
    pairs = [(_text_cbor(cast("str", key)), item) for key, item in members.items()]
    for key, item in sorted(pairs, key=itemgetter(0)):
        out.append(key)
        _append(out, item, room - 1)


def _append_rare(out: list[bytes], value: object) -> None:
    # Subclasses, as of an Enum: what counts is the number or the text.
    if isinstance(value, str):
        out.append(_text_cbor(str.__str__(value)))
    elif isinstance(value, int):
        out.append(cbor2.dumps(int(value)))
    elif isinstance(value, float):
        out.append(_number(float(value)))
    else:
        raise TypeError(f"an argument is of type {type(value).__name__}, which JSON does not have")


def _number(number: float) -> bytes:
    if number.is_integer():
        return cbor2.dumps(int(number))
    if math.isnan(number):
        return _NAN
    return _INFINITIES.get(number) or cbor2.dumps(number)


def _text_cbor(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        # A lone surrogate, which JSON can carry and UTF-8 cannot: a byte string keeps it apart.
        data = text.encode("utf-8", "surrogatepass")
        return head(0x40, len(data)) + data
    return head(0x60, len(data)) + data


def _method_cbor(method: str) -> bytes:
    number = METHODS.get(method)
    return _text_cbor(method) if number is None else head(0, number)
