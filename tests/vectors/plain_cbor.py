"""The CBOR of the second implementation (RFC 8949): what the format has, and not a type more."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import cast


class RefusedError(Exception):
    """A token does not open; the first argument is the code of the format's section 6."""


@dataclass(frozen=True)
class Raw:
    """Bytes that stand in a CBOR structure as they are."""

    data: bytes


def head(major: int, value: int) -> bytes:
    if value < 24:
        return bytes([major << 5 | value])
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if value < 1 << 8 * size:
            return bytes([major << 5 | info]) + value.to_bytes(size, "big")
    raise OverflowError


_SIMPLE = ((None, b"\xf6"), (False, b"\xf4"), (True, b"\xf5"))


def encode(value: object) -> bytes:
    """Encode a value; maps keep their order, floats have 64 bits, integers any size."""
    for simple, data in _SIMPLE:
        if value is simple:
            return data
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    return value.data if isinstance(value, Raw) else _with_length(value)


def _with_length(value: object) -> bytes:
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        text = value.encode()
        return head(3, len(text)) + text
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return head(4, len(items)) + b"".join(map(encode, items))
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        pairs = (encode(key) + encode(item) for key, item in members.items())
        return head(5, len(members)) + b"".join(pairs)
    raise TypeError(type(value))


def _integer(value: int) -> bytes:
    if -(1 << 64) <= value < 1 << 64:
        return head(0, value) if value >= 0 else head(1, -1 - value)
    size = value if value >= 0 else -1 - value
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0xC2 if value >= 0 else 0xC3]) + encode(digits)


@dataclass
class Reader:
    """Decodes the one encoding of a value, and refuses every other."""

    data: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise RefusedError("malformed")
        self.at += count
        return self.data[self.at - count : self.at]

    def head(self) -> tuple[int, int]:
        start = self.at
        first = self.take(1)[0]
        major, info = first >> 5, first & 31
        if info > 27:
            raise RefusedError("malformed")
        value = info if info < 24 else int.from_bytes(self.take(1 << info - 24), "big")
        if major != 7 and head(major, value) != self.data[start : self.at]:
            raise RefusedError("malformed")
        return major, value

    def of(self, major: int) -> int:
        found, value = self.head()
        if found != major:
            raise RefusedError("malformed")
        return value

    def bstr(self, size: int | None = None) -> bytes:
        length = self.of(2)
        if size not in (None, length):
            raise RefusedError("malformed")
        return self.take(length)

    def tstr(self) -> str:
        try:
            return self.take(self.of(3)).decode()
        except UnicodeDecodeError:
            raise RefusedError("malformed") from None

    def null(self) -> bool:
        if self.data[self.at : self.at + 1] != b"\xf6":
            return False
        self.at += 1
        return True

    def end(self) -> None:
        if self.at != len(self.data):
            raise RefusedError("malformed")

    def state(self, room: int = 64) -> object:
        start = self.at
        major, value = self.head()
        if major in (4, 5):
            if room == 0:
                raise RefusedError("malformed")
            return self._list(value, room - 1) if major == 4 else self._map(value, room - 1)
        if major in (0, 1):
            return value if major == 0 else -1 - value
        if major == 7:
            return self._simple(self.data[start])
        self.at = start
        return (self.bstr, self.tstr)[major - 2]() if major != 6 else self._bignum()

    def _list(self, count: int, room: int) -> list[object]:
        return [self.state(room) for _ in range(count)]

    def _map(self, count: int, room: int) -> dict[object, object]:
        members: dict[object, object] = {}
        for _ in range(count):
            key = self.state(0)
            if type(key) not in (str, int) or key in members:
                raise RefusedError("malformed")
            members[key] = self.state(room)
        return members

    def _bignum(self) -> int:
        tag = self.of(6)
        if tag not in (2, 3):
            raise RefusedError("malformed")
        digits = self.bstr()
        value = int.from_bytes(digits, "big")
        if value < 1 << 64 or digits[0] == 0:
            raise RefusedError("malformed")
        return value if tag == 2 else -1 - value

    def _simple(self, first: int) -> object:
        for simple, data in _SIMPLE:
            if first == data[0]:
                return simple
        if first != 0xFB:
            raise RefusedError("malformed")
        number: float = struct.unpack(">d", self.data[self.at - 8 : self.at])[0]
        if not math.isfinite(number):
            raise RefusedError("malformed")
        return number
