"""How much work a call is, in calls: a number that no busy machine changes."""

import sys
from collections.abc import Callable
from types import FrameType


def calls(function: Callable[[], object]) -> int:
    """Count the calls of functions, Python's and C's, that one call makes; it may raise ValueError."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    except ValueError:
        pass
    finally:
        sys.setprofile(before)
    return count
