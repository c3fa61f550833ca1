"""How much work a call is, in calls: a number that no busy machine changes."""

import gc
import inspect
import sys
from collections.abc import Callable
from types import FrameType


def calls(function: Callable[[], object]) -> int:
    """Count the calls of functions, Python's and C's, that one call makes; it may raise ValueError."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # what a collection calls is no work of the function's
    sys.setprofile(profile)
    try:
        function()
    except ValueError:
        pass
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count


def with_room_for(frames: int, call: Callable[[], object]) -> None:
    """Make a call where the stack has room for some more frames only."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + frames)
    try:
        call()
    finally:
        sys.setrecursionlimit(limit)
