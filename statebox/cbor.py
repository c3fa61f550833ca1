"""CBOR by hand, as far as a token's layout goes: heads, and where a string has to end (RFC 8949 §3).

Strict: a head is in its shortest form or it is refused. The values of a state are another room.
"""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 64  # levels of lists and maps, in a state and in a request's arguments

_BYTE: Final = tuple(bytes((value,)) for value in range(256))
_WIDTH: Final = (1, 2, 4, 8)  # bytes after a head's first, from the additional information 24 on
_LEAST: Final = (24, 0x100, 0x10000, 0x1_0000_0000)  # what a shorter form would not hold
_NOT_EXACT: Final = "another type, a head longer than needed, or the data ends early or late"


def head(major: int, value: int) -> bytes:
    """Encode the head of a data item in its shortest form (RFC 8949 §3, §4.2.1).

    Args:
        major: The major type in its place, as 0x40 for a byte string.
        value: A length, or an unsigned number below 2^64.

    Returns:
        1 to 9 bytes.
    """
    if value < 24:
        return _BYTE[major | value]
    if value < 0x100:
        return _BYTE[major | 24] + _BYTE[value]
    if value < 0x10000:
        return _BYTE[major | 25] + value.to_bytes(2, "big")
    if value < 0x1_0000_0000:
        return _BYTE[major | 26] + value.to_bytes(4, "big")
    return _BYTE[major | 27] + value.to_bytes(8, "big")


def read_head(data: bytes, position: int, major: int) -> tuple[int, int]:
    """Read a head of one major type in its shortest form.

    Args:
        data: The bytes.
        position: Where the head begins.
        major: The major type in its place, as 0x40 for a byte string.

    Returns:
        The value, and the position after the head.

    Raises:
        ValueError: Another major type, a longer form than needed, or the data ends.
    """
    info = data[position] ^ major if position < len(data) else 0xFF
    if info < 24:
        return info, position + 1
    if info > 27:
        raise ValueError("another type, an indefinite length, or the data ends early")
    end = position + 1 + _WIDTH[info - 24]
    value = int.from_bytes(data[position + 1 : end], "big")
    if value < _LEAST[info - 24] or end > len(data):
        raise ValueError("the head is longer than needed, or the data ends early")
    return value, end


def content_at(data: bytes, position: int, end: int, major: int, least: int = 0) -> int:
    """Find the content of a byte or text string that reaches exactly to an end.

    Args:
        data: The bytes.
        position: Where the string's head begins.
        end: Where its content has to end.
        major: 0x40 for a byte string, 0x60 for text.
        least: How many bytes the content has to have, at most 24.

    Returns:
        The position of the content.

    Raises:
        ValueError: Another type, another length, or a longer head than needed.
    """
    length = end - position - 2
    # The commonest heads by far, of two bytes and of three; where they would fit, no other does.
    if 24 <= length < 0x100:
        if data[position] != major | 24 or data[position + 1] != length:
            raise ValueError(_NOT_EXACT)
        return position + 2
    if 0x100 < length <= 0x10000:
        if (
            data[position] != major | 25
            or data[position + 1] << 8 | data[position + 2] != length - 1
        ):
            raise ValueError(_NOT_EXACT)
        return position + 3
    length, start = read_head(data, position, major)
    if start + length != end:
        raise ValueError(_NOT_EXACT)
    if length < least:
        raise ValueError(f"no room for {least} bytes")
    return start
