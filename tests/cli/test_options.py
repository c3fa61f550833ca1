"""Values of options: durations, times, where a keyring and a principal come from."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox_cli.options import duration, point_in_time
from statebox_cli.output import counted
from statebox_cli.times import absolute, both, relative, span


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604800), ("45", 45), (" 1m ", 60), (30, 30)],
)
def test_a_duration_is_seconds(text: str | int, seconds: int) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "-1s", "1.5h", "1w", "1h30m", "٣s", "9999999999s", "1 s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="90s, 10m, 2h or 7d"):
        duration(text)


def test_a_duration_is_no_longer_than_a_key_can_carry() -> None:
    assert duration("36500d") == 36500 * 86400
    with pytest.raises(click.BadParameter, match="longer than 100 years"):
        duration("36501d")


@pytest.mark.parametrize(
    "text",
    [
        "1790000000",
        "1790000000.0",
        "2026-09-21T14:13:20Z",
        "2026-09-21 14:13:20",
        "2026-09-21T16:13:20+02:00",
        "20260921T141320Z",
    ],
)
def test_a_time_is_seconds_and_without_a_zone_it_is_utc(text: str) -> None:
    assert point_in_time(text) == 1_790_000_000


@pytest.mark.parametrize(
    "text",
    ["", "noon", "nan", "inf", "-5", "1e9", "2026-13-01", "1950-01-01", "1" * 30, "9" * 5000],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        point_in_time(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (3605, "1 h"),
        (90061, "1 d 1 h"),
        (-61, "1 min 1 s"),
    ],
)
def test_a_span_has_at_most_two_units(seconds: int, text: str) -> None:
    assert span(seconds) == text


def test_a_time_is_written_absolute_and_relative() -> None:
    assert both(1_790_000_000, 1_790_000_240) == "2026-09-21 14:13:20Z, 4 min ago"
    assert relative(1_790_000_000, 1_789_999_990) == "in 10 s"
    assert relative(5, 5.9) == "now"
    assert absolute((1 << 40) - 1) == "36812-02-20 00:36:15Z"
    for beyond in (-1, 1 << 40, 10**400, float("nan"), float("inf")):
        assert absolute(beyond) == relative(beyond, 0) == both(beyond, 0) == "beyond all clocks"
    assert span(float("nan")) == "beyond all clocks"


@given(st.floats() | st.integers(), st.floats(0, 1 << 39))
def test_any_number_is_written(seconds: float, now: float) -> None:
    assert both(seconds, now)


def test_one_of_something_is_not_written_as_several() -> None:
    assert [counted(number, "key") for number in (0, 1, 2, 1000)] == [
        "0 keys",
        "1 key",
        "2 keys",
        "1,000 keys",
    ]
