"""What a token carries for its server, in the one encoding there is for it (format, section 4).

The bytes of a state are walked before cbor2 gets them, and the walk knows that encoding only: a longer
head, a tag, an indefinite length, another type or a trailing byte is refused, so that the general
decoder never meets what it could be made to stumble over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import repeat
from typing import Any, Final, TypeAlias

import cbor2

from statebox.cbor import MAX_DEPTH, content_at, head, read_head

State: TypeAlias = "bool | int | float | str | bytes | list[State] | dict[str | int, State] | None"
"""What a token can carry; it comes back equal, with the order of its maps."""

Sealable: TypeAlias = "State | dict[str, Any] | dict[int, Any] | dict[str | int, Any] | list[Any]"
"""The same for who seals: a `dict[str, int]` is no `dict[str | int, State]` to a type checker."""

_PLAIN: Final = frozenset({str, int, bool, float, bytes, type(None)})
_NOT_FINITE: Final = (b"\xf9\x7e\x00", b"\xf9\x7c\x00", b"\xf9\xfc\x00")
_SHOWN: Final = 40  # characters of a key, in the path to a value


def _extent_by(first: int) -> int:
    if first & 0x1F > 23:
        return 0
    if first < 0x40 or 0xF4 <= first <= 0xF6:
        return 1
    return 1 + (first & 0x1F) if first < 0x80 else 0


# How many bytes an item has, by its first byte; 0 where it takes a closer look, see `_extent`. Most
# items of most states are here: short texts and byte strings, -24 to 23, false, true and null.
_EXTENT: Final = tuple(map(_extent_by, range(256)))
# The same for a key, which is text or an integer.
_KEY_EXTENT: Final = tuple(
    extent if first < 0x40 or first >> 5 == 3 else 0 for first, extent in enumerate(_EXTENT)
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
    value: Any = state
    try:
        # INVARIANT: checked before it is encoded: the encoder recurses without a limit of its own.
        if type(state) not in _PLAIN:
            _check(value, MAX_DEPTH)
        try:
            if type(state) is str:  # the commonest state, four times as fast without the encoder
                text = state.encode()
                return head(0x60, len(text)) + text
            data = cbor2.dumps(state)
        except UnicodeEncodeError:
            _find_bad(value)
            raise
        # INVARIANT: every number is finite. The encoder writes those that are not in three bytes
        # each; wherever these stand, it takes a walk to tell whether they are numbers.
        if 0xF9 in data and any(form in data for form in _NOT_FINITE):
            _find_bad(value)
    except RecursionError:  # a caller deep in its own stack has no room left for 64 levels
        raise UnsupportedValueError("too deep: the stack has no room for it") from None
    return data


def decode_state(data: bytes) -> State:
    """Decode a state, and refuse every encoding but the one that `encode_state` gives.

    Args:
        data: Authenticated bytes.

    Returns:
        The state.

    Raises:
        ValueError: It is not that encoding of such a state.
    """
    first = data[0] if data else 0
    if 0x60 <= first < 0x80:  # text: as above
        if first == 0x78 and 24 <= len(data) - 2 == data[1]:
            return data[2:].decode()
        return data[content_at(data, 0, len(data), 0x60) :].decode()
    try:
        end = _EXTENT[data[0]] or _extent(data, 0, MAX_DEPTH)
    except IndexError:
        raise ValueError("the data ends early") from None
    except RecursionError:
        raise ValueError("too deep: the stack has no room for it") from None
    if end != len(data):
        raise ValueError("the data ends early or late")
    try:
        state: State = cbor2.loads(data, allow_duplicate_keys=False)
    except Exception as error:  # deny on error: whatever a decoder raises, the state is refused
        raise ValueError("text that is not UTF-8, or two equal keys") from error
    return state


def _extent(data: bytes, at: int, room: int) -> int:  # noqa: C901 - one dispatch by first byte
    """Walk an item in the one encoding it may have, and count its bytes.

    Args:
        data: The bytes.
        at: Where the item begins.
        room: How many levels of lists and maps it may have.

    Returns:
        How many there should be: a text or byte string at the end may claim more than is there.

    Raises:
        ValueError: It has another encoding, is no value of a state, or is too deep.
        IndexError: The bytes end before it does.
    """
    first = data[at]
    if first >= 0xC0:
        if first != 0xFB:
            return _bignum_extent(data, at)
        # INVARIANT: every number is finite; in one that is not, all bits of the exponent are set.
        if data[at + 1] & 0x7F == 0x7F and data[at + 2] >= 0xF0:
            raise ValueError("a number that is not finite")
        return 9
    size, content = first & 0x1F, at + 1
    if size == 25 and data[content]:  # read_head says the same, in thrice the time
        size, content = data[content] << 8 | data[at + 2], at + 3
    elif size >= 24:
        size, content = read_head(data, at, first & 0xE0)
    if first < 0x80:
        return content + size - at if first >= 0x40 else content - at
    # INVARIANT: no recursion is deeper than MAX_DEPTH, and no loop longer than the data.
    if not room:
        raise ValueError(f"more than {MAX_DEPTH} levels")
    if size > len(data):
        raise ValueError("the data ends early")
    end = content
    if first < 0xA0:
        for _ in repeat(None, size):
            end += _EXTENT[data[end]] or _extent(data, end, room - 1)
    else:
        for _ in repeat(None, size):
            end += _KEY_EXTENT[data[end]] or _key_extent(data, end)
            end += _EXTENT[data[end]] or _extent(data, end, room - 1)
    return end - at


def _key_extent(data: bytes, at: int) -> int:
    if data[at] >> 5 not in (0, 1, 3, 6):
        raise ValueError("a key that is neither text nor an integer")
    return _extent(data, at, 0)


def _bignum_extent(data: bytes, at: int) -> int:
    if data[at] not in b"\xc2\xc3":
        raise ValueError("a tag, a simple value, or an indefinite length")
    size, content = read_head(data, at + 1, 0x40)
    # INVARIANT: no integer in a longer form: with a tag where 64 bits hold it, or a leading zero.
    if size < 9 or not data[content]:
        raise ValueError("an integer in a longer form than needed")
    return content + size - at


def _check(value: State, room: int) -> None:
    items: Iterable[tuple[str | int, State]]
    if type(value) is dict:
        items = value.items()
    elif type(value) is list:
        # The set asks in C what the loop asks item by item, to name the place.
        items = () if _PLAIN.issuperset(map(type, value)) else enumerate(value)
    else:
        raise UnsupportedValueError(f"a value of type {type(value).__name__}")
    if not room:
        raise UnsupportedValueError(f"more than {MAX_DEPTH} levels")
    for key, item in items:
        if type(key) is not str and type(key) is not int:
            raise UnsupportedValueError(f"a key of type {type(key).__name__}")
        if type(item) not in _PLAIN:
            try:
                _check(item, room - 1)
            except UnsupportedValueError as error:
                error.steps.append(_step(key))
                raise


def _step(key: str | int) -> str:
    if isinstance(key, int):
        # Python writes no number of more than some thousand digits.
        return f"[{key}]" if key.bit_length() <= 64 else "[a number beyond 64 bits]"
    # A name in the code of whoever wrote the state; anything else may be a user's.
    return f".{key}" if len(key) <= _SHOWN and key.isidentifier() else "[a key]"


def _find_bad(value: State) -> None:
    pairs: Iterable[tuple[str | int, State]] = ()
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnsupportedValueError(
                "text with a lone surrogate, which UTF-8 does not have"
            ) from None
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise UnsupportedValueError("a number that is not finite")
    elif isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, item in pairs:
        try:
            _find_bad(key)
            _find_bad(item)
        except UnsupportedValueError as error:
            error.steps.append(_step(key))
            raise
