"""One text for any place that a keyring can be read from."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from statebox.errors import KeyringError, leaving_no_frames
from statebox.events import Hook
from statebox.sources.environment import EnvironmentReader
from statebox.sources.file import FileReader
from statebox.sources.live import LiveSource

# Imported where they are used: most rings lie in a file, and these two bring much along.
if TYPE_CHECKING:
    from statebox.sources.command import CommandReader
    from statebox.sources.redis import RedisReader

AnyReader: TypeAlias = "FileReader | EnvironmentReader | CommandReader | RedisReader"

_LONGEST: Final = 4096  # characters, as Linux has it for a path
_KIND: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)


@leaving_no_frames
def reader_of(address: str, *, timeout: float | None = None) -> AnyReader:
    """Tell which place a text names. Nothing is read yet.

    Args:
        address: `file:PATH`, a bare path, `env:NAME`, `cmd:COMMAND...` or `redis://...`.
        timeout: Seconds that a command (default: 10) or a Redis (default: 2) may take.

    Returns:
        The place.

    Raises:
        KeyringError: It names none.
    """
    match = _KIND.match(address)
    kind = match[1] if match else "file"
    rest = address[match.end() :] if match else address
    if kind == "file":
        # INVARIANT: no error quotes a ring that was given in the place of its address.
        if any(char in rest for char in '{"\n') or len(rest) > _LONGEST:
            raise KeyringError(
                "the keyring's address is no path, and looks like a keyring itself",
                hint="Give where it lies: a path, or env:NAME if it is in a variable.",
            )
        return FileReader(rest)
    if kind == "env":
        return EnvironmentReader(rest)
    if kind == "cmd":
        from statebox.sources.command import CommandReader

        return CommandReader(rest) if timeout is None else CommandReader(rest, timeout=timeout)
    if kind in ("redis", "rediss"):
        from statebox.sources.redis import RedisReader

        return RedisReader(address) if timeout is None else RedisReader(address, timeout=timeout)
    # Not quoted: what was meant for another option may be a secret.
    raise KeyringError(
        "the keyring's address is of no known kind",
        hint="Use file:PATH, env:NAME, cmd:COMMAND or redis://...; a bare path has no colon.",
    )


@leaving_no_frames
def open_source(
    address: str,
    *,
    interval: float | None = None,
    timeout: float | None = None,
    on_event: Hook | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> LiveSource:
    """Open a live source of a keyring, and read it once.

    Args:
        address: `file:PATH`, a bare path, `env:NAME`, `cmd:COMMAND...` or `redis://...`.
        interval: Seconds between two looks; default: 1 for a file, 5 for a Redis, 60 for the others.
        timeout: Seconds that a command (default: 10) or a Redis (default: 2) may take.
        on_event: Called with a `KeyringReloaded` or a `KeyringFailed` at every change of state;
            see `statebox.events`.
        monotonic: Gives seconds that never go back.

    Returns:
        The source; `current()` is its ring.

    Raises:
        KeyringError: The address names no place, or there is no usable ring there.
        ValueError: The interval or the timeout is not a positive number.
    """
    for name, value in (("interval", interval), ("timeout", timeout)):
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"{name} is a positive number of seconds")
    return LiveSource(
        reader_of(address, timeout=timeout),
        interval=interval,
        on_event=on_event,
        monotonic=monotonic,
    )
