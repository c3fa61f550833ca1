"""What a state may be, and what arguments may be, for hypothesis."""

from __future__ import annotations

from typing import Final, cast

from hypothesis import strategies as st

from statebox.state import State

_SIZES: Final = [1 << bits for bits in (8, 16, 32, 53, 63, 64, 65, 128, 520)]

integers = st.integers() | st.sampled_from(
    [sign * (size + step) for size in _SIZES for sign in (1, -1) for step in (-1, 0, 1)]
)
floats = st.floats(allow_nan=False, allow_infinity=False)
plain = st.none() | st.booleans() | integers | floats | st.text() | st.binary(max_size=300)

states: st.SearchStrategy[State] = st.recursive(
    cast("st.SearchStrategy[State]", plain),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text() | integers, inner, max_size=5)
    ),
    max_leaves=12,
)

# Text as JSON can carry it: with lone surrogates.
any_text = st.text(st.characters(exclude_categories=[]), max_size=20)
arguments: st.SearchStrategy[dict[str, object]] = st.dictionaries(
    any_text,
    st.recursive(
        st.none() | st.booleans() | integers | st.floats() | any_text,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
        max_leaves=8,
    ),
    max_size=4,
)


def nested(depth: int, kind: str = "list") -> State:
    """Nest containers of a kind: `list`, `dict`, or `both` by turns."""
    state: State = None
    for level in range(depth):
        as_list = kind == "list" or (kind == "both" and level % 2 == 0)
        inner: State = [] if state is None and level == 0 else state
        state = [inner] if as_list and level else [] if as_list else {"a": inner} if level else {}
    return state
