"""A state as text: JSON where JSON can say it, CBOR diagnostic notation (RFC 8949 §8) where not.

The parser here is for bytes that nobody has authenticated. It reads what a state may hold and
nothing else, goes no deeper than a state may be, and makes no value that is longer than its input.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Final

from statebox.cbor import MAX_DEPTH, read_head
from statebox.state import State

_BREAK: Final = 0xFF
_SIMPLE: Final[dict[int, bool | None]] = {0xF4: False, 0xF5: True, 0xF6: None}
_FLOAT64: Final = 0xFB
_BIGNUMS: Final = (0xC2, 0xC3)
_LONGEST_NUMBER: Final = 10_000  # bits; Python writes no number of more than 4,300 digits


def parse(data: bytes) -> State:
    """Read a state out of bytes that may be anything.

    Args:
        data: Untrusted bytes.

    Returns:
        The state.

    Raises:
        ValueError: They are not one state and nothing else.
    """
    state, end = _item(data, 0, MAX_DEPTH + 1)
    if end != len(data):
        raise ValueError("bytes are left over")
    return state


def _item(data: bytes, at: int, room: int) -> tuple[State, int]:
    first = data[at] if at < len(data) else _BREAK
    major = first & 0xE0
    if first in _SIMPLE:
        return _SIMPLE[first], at + 1
    if first == _FLOAT64 or first in _BIGNUMS:
        return _number(data, at, first)
    if major in (0x40, 0x60):
        raw, end = _string(data, at, major)
        return (raw if major == 0x40 else raw.decode()), end
    value, at = read_head(data, at, major)
    if major in (0x00, 0x20):
        return (value if major == 0x00 else -1 - value), at
    if major in (0x80, 0xA0) and room > 0:
        return _array(data, at, value, room) if major == 0x80 else _map(data, at, value, room)
    raise ValueError("a value that no state has")


def _number(data: bytes, at: int, first: int) -> tuple[State, int]:
    if first in _BIGNUMS:
        raw, end = _string(data, at + 1, 0x40)
        size = int.from_bytes(raw, "big")
        return (size if first == _BIGNUMS[0] else -1 - size), end
    if at + 9 > len(data):
        raise ValueError("the data ends early")
    number: float = struct.unpack_from(">d", data, at + 1)[0]
    if not math.isfinite(number):
        raise ValueError("a number that is not finite")
    return number, at + 9


def _string(data: bytes, at: int, major: int) -> tuple[bytes, int]:
    length, at = read_head(data, at, major)
    if at + length > len(data):
        raise ValueError("the data ends early")
    return data[at : at + length], at + length


def _array(data: bytes, at: int, length: int, room: int) -> tuple[State, int]:
    items: list[State] = []
    # A length is only a promise: the loop ends where the data does.
    for _ in range(length):
        item, at = _item(data, at, room - 1)
        items.append(item)
    return items, at


def _map(data: bytes, at: int, length: int, room: int) -> tuple[State, int]:
    members: dict[str | int, State] = {}
    for _ in range(length):
        key, at = _item(data, at, room - 1)
        if (type(key) is not str and type(key) is not int) or key in members:
            raise ValueError("a key that no state has, or one twice")
        members[key], at = _item(data, at, room - 1)
    return members, at


def is_json(state: State) -> bool:
    """Tell whether JSON can say this state: no bytes, no keys that are numbers, none too long."""
    if isinstance(state, bytes):
        return False
    if isinstance(state, int):
        return state.bit_length() <= _LONGEST_NUMBER
    if isinstance(state, list):
        return all(is_json(item) for item in state)
    if isinstance(state, dict):
        return all(type(key) is str and is_json(item) for key, item in state.items())
    return True


def diagnostic(state: State) -> str:
    """Write a state in CBOR diagnostic notation: JSON, with `h'..'` and keys that are numbers."""
    if isinstance(state, bytes):
        return f"h'{state.hex()}'"
    if isinstance(state, list):
        return f"[{', '.join(diagnostic(item) for item in state)}]"
    if isinstance(state, dict):
        pairs = (f"{diagnostic(key)}: {diagnostic(item)}" for key, item in state.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(state, int) and not is_json(state):
        size = state if state >= 0 else -1 - state
        raw = size.to_bytes(size.bit_length() // 8 + 1, "big").lstrip(b"\0")
        return f"{2 if state >= 0 else 3}(h'{raw.hex()}')"
    return json.dumps(state)


def state_text(state: State) -> str:
    """Write a state on one line: as JSON where JSON can say it, else in diagnostic notation."""
    return json.dumps(state) if is_json(state) else diagnostic(state)
