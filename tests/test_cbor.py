"""Heads and strings, strictly: one form for each, and an exact end."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statebox.cbor import content_at, head, read_head
from tests.vectors import plain_cbor

WIDTHS = [0, 23, 24, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, (1 << 64) - 1]


@pytest.mark.parametrize("value", WIDTHS)
@pytest.mark.parametrize("major", range(6))
def test_a_head_is_written_in_its_shortest_form_and_read_back(major: int, value: int) -> None:
    written = head(major << 5, value)
    assert written == plain_cbor.head(major, value)
    assert read_head(b"\xff" + written + b"\xff", 1, major << 5) == (value, 1 + len(written))


@given(value=st.integers(0, (1 << 64) - 1), major=st.integers(0, 7))
def test_every_other_form_of_a_head_is_refused(value: int, major: int) -> None:
    shortest = head(major << 5, value)
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if value < 1 << 8 * size:
            form = bytes([major << 5 | info]) + value.to_bytes(size, "big")
            if form != shortest:
                with pytest.raises(ValueError, match="longer than needed"):
                    read_head(form, 0, major << 5)


@pytest.mark.parametrize("first", [0x5C, 0x5D, 0x5E, 0x5F], ids=hex)
def test_a_head_of_indefinite_or_reserved_length_is_refused(first: int) -> None:
    with pytest.raises(ValueError, match="indefinite length"):
        read_head(bytes([first]) + bytes(9), 0, 0x40)


@pytest.mark.parametrize("value", WIDTHS)
def test_a_head_that_ends_early_is_refused(value: int) -> None:
    written = head(0x40, value)
    for end in range(len(written)):
        with pytest.raises(ValueError, match="ends early"):
            read_head(written[:end], 0, 0x40)


@given(first=st.integers(0, 255), major=st.integers(0, 7))
def test_a_head_of_another_type_is_refused(first: int, major: int) -> None:
    if first >> 5 != major:
        with pytest.raises(ValueError, match="another type"):
            read_head(bytes([first]) + bytes(9), 0, major << 5)


@given(size=st.integers(0, 70_000), off=st.sampled_from([-1, 0, 1]))
@example(size=255, off=0)
@example(size=256, off=0)
@example(size=23, off=0)
@example(size=24, off=0)
def test_a_string_has_to_end_exactly_where_it_should(size: int, off: int) -> None:
    data = b"\xff" + head(0x40, size) + bytes(size) + b"\x00"
    if off == 0:
        assert content_at(data, 1, len(data) - 1, 0x40) == len(data) - 1 - size
    else:
        with pytest.raises(ValueError, match="ends early or late"):
            content_at(data, 1, len(data) - 1 + off, 0x40)


@pytest.mark.parametrize("size", [5, 23, 24, 255, 256])
def test_a_string_of_another_type_or_in_a_longer_form_is_no_content(size: int) -> None:
    text = head(0x60, size) + bytes(size)
    with pytest.raises(ValueError, match="another type"):
        content_at(text, 0, len(text), 0x40)
    longer = b"\x5a" + size.to_bytes(4, "big") + bytes(size)
    with pytest.raises(ValueError, match="longer than needed"):
        content_at(longer, 0, len(longer), 0x40)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 23, 24, 300])
def test_a_content_has_as_many_bytes_as_it_has_to(size: int) -> None:
    data = head(0x40, size) + bytes(size)
    if size >= 16:
        assert content_at(data, 0, len(data), 0x40, 16) == len(data) - size
    else:
        with pytest.raises(ValueError, match="no room for 16 bytes"):
            content_at(data, 0, len(data), 0x40, 16)
