"""What a token is bound to: the principal it was sealed for, and the request it belongs to.

Both become short fixed-size bytes (format, section 5). Principals pass through a keyed hash, so
that a readable token does not tell who its user is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from struct import Struct
from typing import Any, Final, Self, TypeAlias, cast, final

import cbor2
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from statebox.cbor import MAX_DEPTH, head
from statebox.keys import Key

Principal: TypeAlias = str | Sequence[str]
"""Who a token is for: one text, or several parts such as (issuer, subject, client_id)."""

METHODS: Final = {"tools/call": 1, "prompts/get": 2, "resources/read": 3}
BINDING_BYTES: Final = 16

_METHOD_ITEMS: Final = {method: bytes((number,)) for method, number in METHODS.items()}
_SHORT: Final = tuple(bytes((0x60 + length,)) for length in range(24))  # heads of short texts
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_FLOAT: Final = Struct(">Bd")
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

    # Slots behind read-only properties, as a Continuation has them.
    __slots__ = ("_cbor", "_method", "_target")

    def __init__(
        self, method: str, target: str, arguments: Mapping[str, Any] | None = None
    ) -> None:
        if type(method) is not str or type(target) is not str:
            raise TypeError("a Request's method and target are text")
        items = (_METHOD_ITEMS.get(method) or _utf8_item(method)) + _utf8_item(target)
        digest = sha256(normalized({} if arguments is None else arguments)).digest()
        self._method = method
        self._target = target
        self._cbor = b"\x83" + items + b"\x50" + digest[:BINDING_BYTES]

    @property
    def method(self) -> str:
        """The JSON-RPC method."""
        return self._method

    @property
    def target(self) -> str:
        """The tool's or prompt's name, or the resource's uri."""
        return self._target

    @property
    def digest(self) -> bytes:
        """The first 16 bytes of SHA-256 over the normalized arguments (format, section 5)."""
        return self._cbor[-BINDING_BYTES:]

    @property
    def cbor(self) -> bytes:
        """`[method, target, digest]` as it stands in a payload (format, section 4)."""
        return self._cbor

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
        members: Mapping[str, Any] = {} if params is None else params
        # dict first, here and below: to ask for Mapping takes ten times as long.
        if not isinstance(members, (dict, Mapping)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("a request's params are a map")
        if method == "resources/read":
            return cls(method, members.get("uri", ""))
        return cls(method, members.get("name", ""), members.get("arguments"))

    def __eq__(self, other: object) -> bool:
        return self.cbor == other.cbor if isinstance(other, Request) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.cbor)

    def __repr__(self) -> str:
        if not hasattr(self, "_cbor"):
            return "<Request, not made>"  # as a debugger sees it when __init__ has raised
        return f"Request({self.method!r}, {self.target!r}, digest={self.digest.hex()})"


def somebody(principal: Principal) -> Principal:
    """Give a principal back, if it is one that a token can be sealed for.

    Raises:
        ValueError: It is empty, or all its parts are.
    """
    # An empty name is a user id that is missing by mistake; all of those would be one user.
    if not principal or (type(principal) is not str and not any(principal)):
        raise ValueError("the principal is empty; pass None to bind to nobody")
    return principal


def principal_cbor(principal: Principal) -> bytes:
    """Encode a principal as the CBOR array of its text parts.

    Args:
        principal: One text, or a sequence of texts.

    Returns:
        Bytes that are the same for the same parts only: an array, so that the parts' borders count.

    Raises:
        TypeError: It is neither, or a part is not text.
    """
    if isinstance(principal, str):
        return b"\x81" + _text_item(principal)
    if not isinstance(principal, (list, tuple)):
        raise TypeError("a principal is text or a list of texts; pass None to bind to nobody")
    items = [head(0x80, len(principal))]
    for part in cast("list[object]", principal):
        if not isinstance(part, str):
            raise TypeError("every part of a principal is text")
        items.append(_text_item(part))
    return b"".join(items)


def principal_mac(key: Key) -> HMAC:
    """Prepare a key's principal hash once; `principal_tag` copies it for every use."""
    return HMAC(key.derive("principal"), SHA256())


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
    return mac.finalize()[:BINDING_BYTES]


def normalized(arguments: object) -> bytes:
    """Encode JSON-like arguments so that equal ones give equal bytes (format, section 5).

    Args:
        arguments: A map with text keys; in it null, bool, int, float, str, list, tuple and maps.

    Returns:
        Deterministic CBOR (RFC 8949 §4.2.1), where numbers that are equal are one number.

    Raises:
        TypeError: A value is of another type.
        ValueError: It is nested deeper than 64 levels.
    """
    if not isinstance(arguments, (dict, Mapping)):
        raise TypeError("a Request's arguments are a map")
    try:
        return _map(arguments, MAX_DEPTH)  # pyright: ignore[reportUnknownArgumentType]
    except RecursionError:
        raise ValueError("the stack has no room for arguments as deep as these") from None


def _map(members: Mapping[object, object], room: int) -> bytes:
    # INVARIANT: depth is checked before anything is encoded; the arguments are the client's, and
    # an encoder that recurses on them would take the process down.
    if not room:
        raise ValueError(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    pairs: list[bytes] = []
    for key, item in members.items():
        if not isinstance(key, str):
            raise TypeError("a map in the arguments has text keys")
        pairs.append(_text_item(key) + _item(item, room))
    # RFC 8949 §4.2.1: the bytewise order of the encoded keys. No item is the beginning of another,
    # so the keys decide the order of the pairs.
    pairs.sort()
    return head(0xA0, len(pairs)) + b"".join(pairs)


def _item(value: object, room: int) -> bytes:
    if isinstance(value, str):
        return _text_item(value)
    if value is None or isinstance(value, bool):
        return b"\xf6" if value is None else b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value) if 0 <= value < 1 << 32 else cbor2.dumps(int(value))
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, (list, tuple)):
        return _list(value, room - 1)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, (dict, Mapping)):
        return _map(value, room - 1)  # pyright: ignore[reportUnknownArgumentType]
    raise TypeError(f"an argument is of type {type(value).__name__}, which JSON does not have")


def _list(items: Sequence[object], room: int) -> bytes:
    if not room:
        raise ValueError(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    # Long lists are what makes arguments large; most hold what needs no normalizing.
    if isinstance(items, list) and _PLAIN.issuperset(map(type, items)):
        with suppress(UnicodeEncodeError):  # a lone surrogate, see _text_item
            return cbor2.dumps(items)
    return head(0x80, len(items)) + b"".join([_item(item, room) for item in items])


def _number(number: float) -> bytes:
    if number.is_integer():
        return cbor2.dumps(int(number))
    if math.isfinite(number):
        return _FLOAT.pack(0xFB, number)
    return _INFINITIES.get(float(number), _NAN)


def _utf8_item(text: str) -> bytes:
    item = _text_item(text)
    if item[0] < 0x60:  # a byte string
        raise ValueError("a Request's method and target are UTF-8: surrogates not allowed")
    return item


def _text_item(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        # A lone surrogate, which JSON can carry and UTF-8 cannot: a byte string keeps it apart.
        data = text.encode("utf-8", "surrogatepass")
        return head(0x40, len(data)) + data
    size = len(data)
    return (_SHORT[size] if size < 24 else head(0x60, size)) + data
