"""The CBOR of a token: heads by hand, states through cbor2, both strict (format, section 4).

There is one encoding for every state. Reading checks that by encoding again, so a second encoding
of the same state, a tag, a duplicate key or a trailing byte is refused; and one function decides
for both directions which values there are, so that sealing refuses what opening would not take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, TypeAlias

import cbor2

State: TypeAlias = "bool | int | float | str | bytes | list[State] | dict[str | int, State] | None"
"""What a token can carry; it comes back equal, with the order of its maps."""

Sealable: TypeAlias = "State | dict[str, Any] | dict[int, Any] | dict[str | int, Any] | list[Any]"
"""The same for who seals: a `dict[str, int]` is no `dict[str | int, State]` to a type checker."""

MAX_DEPTH: Final = 64

_WIDTH: Final = (1, 2, 4, 8)  # bytes after a head's first, from the additional information 24 on
_LEAST: Final = (24, 0x100, 0x10000, 0x1_0000_0000)  # what a shorter form would not hold
_PLAIN: Final = frozenset({str, int, bool, bytes, type(None)})
_SHOWN: Final = 40  # characters of a key, in the path to a value


def _refused(_decoder: object, _immutable: bool, /) -> NoReturn:  # noqa: FBT001 - as cbor2 calls it
    raise ValueError("a reference")


# INVARIANT: no value stands for another (tags 28 and 29, 25 and 256): 100 bytes of references make
# a state whose check would not end.
_NO_REFERENCES: Final[dict[int, Callable[[object, bool], NoReturn]]] = dict.fromkeys(
    (25, 28, 29, 256), _refused
)


class UnsupportedValueError(ValueError):
    """A value that no token carries; the path leads to it from the state's root."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[str] = []

    @property
    def path(self) -> str:
        """The place of the value, as `$.items[2]`. A text key is shown, never a value."""
        return "$" + "".join(reversed(self.steps))


def head(major: int, value: int) -> bytes:
    """Encode the head of a data item in its shortest form (RFC 8949 §3, §4.2.1).

    Args:
        major: The major type in its place, as 0x40 for a byte string.
        value: A length, or an unsigned number below 2^64.

    Returns:
        1 to 9 bytes.
    """
    if value < 24:
        return bytes((major | value,))
    if value < 0x100:
        return bytes((major | 24, value))
    if value < 0x10000:
        return bytes((major | 25,)) + value.to_bytes(2, "big")
    if value < 0x1_0000_0000:
        return bytes((major | 26,)) + value.to_bytes(4, "big")
    return bytes((major | 27,)) + value.to_bytes(8, "big")


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
    first = data[position : position + 1]
    info = first[0] ^ major if first else 0xFF
    if info < 24:
        return info, position + 1
    if info > 27:
        raise ValueError("another type, an indefinite length, or the data ends early")
    end = position + 1 + _WIDTH[info - 24]
    value = int.from_bytes(data[position + 1 : end], "big")
    if value < _LEAST[info - 24] or end > len(data):
        raise ValueError("the head is longer than needed, or the data ends early")
    return value, end


def content_at(data: bytes, position: int, end: int, major: int) -> int:
    """Find the content of a byte or text string that reaches exactly to an end.

    Args:
        data: The bytes.
        position: Where the string's head begins.
        end: Where its content has to end.
        major: 0x40 for a byte string, 0x60 for text.

    Returns:
        The position of the content.

    Raises:
        ValueError: Another type, another length, or a longer head than needed.
    """
    length = end - position - 2
    # The commonest head by far: two bytes.
    if 24 <= length < 0x100 and data[position] == major | 24 and data[position + 1] == length:
        return position + 2
    length, start = read_head(data, position, major)
    if start + length != end:
        raise ValueError("the data ends early or late")
    return start


def encode_state(state: Sealable) -> bytes:
    """Encode a state.

    Args:
        state: null, bool, int, float, str, bytes, list, or dict with text or integer keys;
            exactly these types, at most 64 levels deep.

    Returns:
        Its one encoding.

    Raises:
        UnsupportedValueError: A value of another type, not finite, not UTF-8, or too deep.
    """
    # INVARIANT: checked before it is encoded: the encoder recurses without a limit of its own.
    value: Any = state
    if type(state) not in _PLAIN:
        _check(value, MAX_DEPTH)
    try:
        if type(state) is str:  # the commonest state, four times as fast without the encoder
            text = state.encode()
            return head(0x60, len(text)) + text
        return cbor2.dumps(state)
    except UnicodeEncodeError:
        _find_bad_text(value)
        raise


def decode_state(data: bytes) -> State:
    """Decode a state, and refuse every encoding but the one that `encode_state` gives.

    Args:
        data: Authenticated bytes.

    Returns:
        The state.

    Raises:
        ValueError: It is not that encoding of such a state.
    """
    if data and 0x60 <= data[0] < 0x80:  # text: as above
        return data[content_at(data, 0, len(data), 0x60) :].decode()
    try:
        state: State = cbor2.loads(data, semantic_decoders=_NO_REFERENCES)
    except Exception as error:  # deny on error: whatever a decoder raises, the state is refused
        raise ValueError("not CBOR") from error
    if type(state) not in _PLAIN:
        _check(state, MAX_DEPTH)
    # INVARIANT: what parses must encode to itself: no longer head, no indefinite length, no second
    # of two equal keys, no trailing byte.
    if cbor2.dumps(state) != data:
        raise ValueError("not the one encoding of this state")
    return state


def _check(value: State, room: int) -> None:  # noqa: C901, PLR0912 - one dispatch by type
    if type(value) is dict:
        if not room:
            raise UnsupportedValueError(f"more than {MAX_DEPTH} levels")
        for key, item in value.items():
            if type(key) is not str and type(key) is not int:
                raise UnsupportedValueError(f"a key of type {type(key).__name__}")
            if type(item) not in _PLAIN:
                _descend(key, item, room - 1)
    elif type(value) is list:
        if not room:
            raise UnsupportedValueError(f"more than {MAX_DEPTH} levels")
        # The set asks in C what the loop asks item by item, to name the place.
        if not _PLAIN.issuperset(map(type, value)):
            for index, item in enumerate(value):
                if type(item) not in _PLAIN:
                    _descend(index, item, room - 1)
    elif type(value) is float:
        if not math.isfinite(value):
            raise UnsupportedValueError("a number that is not finite")
    else:
        raise UnsupportedValueError(f"a value of type {type(value).__name__}")


def _descend(key: str | int, item: State, room: int) -> None:
    try:
        _check(item, room)
    except UnsupportedValueError as error:
        error.steps.append(_step(key))
        raise


def _step(key: str | int) -> str:
    if isinstance(key, int):
        # Python writes no number of more than some thousand digits.
        return f"[{key}]" if key.bit_length() <= 64 else "[a number beyond 64 bits]"
    # A name in the code of whoever wrote the state; anything else may be a user's.
    return f".{key}" if len(key) <= _SHOWN and key.isidentifier() else "[a key]"


def _find_bad_text(value: State) -> None:
    pairs: Iterable[tuple[str | int, State]] = ()
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnsupportedValueError(
                "text with a lone surrogate, which UTF-8 does not have"
            ) from None
    elif isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, item in pairs:
        try:
            _find_bad_text(key)
            _find_bad_text(item)
        except UnsupportedValueError as error:
            error.steps.append(_step(key))
            raise
