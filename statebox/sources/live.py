"""A ring that is read again when it is due, by whoever happens to ask for it then.

Three promises, each kept beside a line below: nobody waits for a read that another one does; a
source that fails leaves the last good ring in use; a look when nothing is due costs one clock.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import ClassVar, Final, Protocol, final

from statebox.errors import KeyringError
from statebox.events import Hook, KeyringFailed, KeyringReloaded, safe
from statebox.keyring import Keyring

logger: Final = logging.getLogger("statebox.sources")

PATIENCE: Final = 1.0  # seconds that a caller who needs a newer ring waits for it at most ...
SLOW_PATIENCE: Final = 0.05  # ... and for a slow place, where made-up kids could use up the time


class Source(Protocol):
    """Something that gives a keyring now, and may give another one later."""

    def current(self) -> Keyring:
        """Give the ring as last read; looks for a change only when one is due."""
        ...

    def reread(self) -> Keyring:
        """Read again because a token names an unknown key; rate-limited, so perhaps no new ring."""
        ...


class Reader(Protocol):
    """One place that a ring is read from, and how often.

    Attributes:
        name: What logs, events and errors call it; there is no secret in it.
        interval: Seconds between two looks.
        reread_interval: Seconds between two looks because of unknown kids.
        slow: Whether reading takes long enough to need a thread of its own.
    """

    interval: ClassVar[float]
    reread_interval: ClassVar[float]
    slow: ClassVar[bool]

    @property
    def name(self) -> str: ...  # noqa: D102 - said above

    def version(self) -> object:
        """Give something that differs when the content may have changed; None: unknown."""
        ...

    def read(self) -> str | bytes:
        """Read the JSON of the ring.

        Raises:
            KeyringError: It cannot be read. Nothing of the content is in the message.
        """
        ...


@final
class LiveSource:
    """A ring that follows the place it is read from. Threads, tasks and forked workers may share it.

    The place is read at once, and then again by the first call that comes when a look is due: on
    the spot if that is quick, else in a thread, while everybody goes on with the ring as it is.

    Args:
        reader: The place.
        interval: Seconds between two looks; default: the reader's.
        on_event: Called with a `KeyringReloaded` or a `KeyringFailed` at every change of state.
        monotonic: Gives seconds that never go back.

    Raises:
        KeyringError: There is no usable ring at the start.
        TypeError: The hook cannot be called.
    """

    __slots__ = (
        "_due",
        "_failure",
        "_interval",
        "_lock",
        "_monotonic",
        "_on_event",
        "_pid",
        "_reader",
        "_reread_due",
        "_ring",
        "_started",
        "_version",
    )

    def __init__(
        self,
        reader: Reader,
        *,
        interval: float | None = None,
        on_event: Hook | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._interval = reader.interval if interval is None else interval
        self._on_event = safe(on_event)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._failure: str | None = None
        self._version = reader.version()
        self._ring = Keyring.from_json(reader.read(), where=reader.name)
        self._started = monotonic()
        self._due = self._started + self._interval
        self._reread_due = 0.0

    def current(self) -> Keyring:
        """Give the ring as last read; looks for a change only when one is due."""
        # The whole cost while nothing is due: one clock, one comparison.
        if self._monotonic() >= self._due:
            self._look()
        return self._ring

    def reread(self) -> Keyring:
        """Read again because a token names an unknown key.

        Made-up kids cannot turn into more than one read in the reader's `reread_interval`. A quick
        source is read before this returns. A slow one is waited for for 50 ms at most: a token
        that is refused meanwhile opens when it is presented again.

        Returns:
            The ring, new or not.
        """
        if self._monotonic() >= self._reread_due:
            self._begin(unknown_kid=True)
        # Another one's read may be the one that brings the key.
        patience = SLOW_PATIENCE if self._reader.slow else PATIENCE
        # INVARIANT: for one read all callers together wait that long, not each of them.
        self._wait(self._started + patience - self._monotonic())
        return self._ring

    def _look(self) -> None:
        late = self._monotonic() - self._due
        self._begin(unknown_kid=False)
        # After hours without a request the ring may be far out of date, so sealing waits for a
        # slow source: for one second in all, however slow it is.
        if self._reader.slow and late > 2 * self._interval:
            self._wait(self._started + PATIENCE - self._monotonic())

    def _begin(self, *, unknown_kid: bool) -> None:
        lock = self._own_lock()
        # INVARIANT: one reads; everybody else goes on with the ring as it is.
        if not lock.acquire(blocking=False):
            return
        self._started = self._monotonic()
        if unknown_kid:
            self._reread_due = self._started + self._reader.reread_interval
        if not self._reader.slow:
            self._read(lock)
            return
        try:
            threading.Thread(
                target=self._read, args=(lock,), name="statebox-keyring", daemon=True
            ).start()
        except RuntimeError:  # the interpreter is ending, or the system has no thread to give
            self._due = self._started + self._interval
            lock.release()

    def _wait(self, seconds: float) -> None:
        lock = self._own_lock()
        if lock.locked() and lock.acquire(timeout=max(seconds, 0.0)):
            lock.release()

    def _own_lock(self) -> threading.Lock:
        if self._pid != os.getpid():
            # Whoever held the lock when this worker was forked is not in this process.
            self._lock, self._pid = threading.Lock(), os.getpid()
        return self._lock

    def _read(self, lock: threading.Lock) -> None:
        # The lock is passed along: after a fork, self._lock may be another one.
        try:
            self._follow()
        finally:
            self._due = self._monotonic() + self._interval
            lock.release()

    def _follow(self) -> None:
        reader = self._reader
        version = reader.version()
        if version is not None and version == self._version:
            return
        try:
            ring = Keyring.from_json(reader.read(), where=reader.name)
        except KeyringError as error:
            # INVARIANT: the last good ring stays. Without a version the next look reads again.
            self._version = None
            self._failed(error)
            return
        # Looked at before reading: a change in between is found by the next look.
        self._version = version
        self._succeeded(ring)

    def _failed(self, error: KeyringError) -> None:
        if self._failure == error.message:
            return  # said already; a source that stays broken does not fill the log
        self._failure = error.message
        logger.warning(
            "%s; the keyring read before stays in use. %s",
            error.message,
            error.hint,
        )
        if self._on_event is not None:
            self._on_event(KeyringFailed(source=self._reader.name, message=error.message))

    def _succeeded(self, ring: Keyring) -> None:
        recovered, self._failure = self._failure is not None, None
        # An equal ring is not put in the place of the old one: what was derived from it stays.
        changed = ring != self._ring
        if changed:
            self._ring = ring
        if not (changed or recovered):
            return
        key_ids = tuple(key.kid for key in ring)
        logger.info("%s gave keys %s", self._reader.name, ", ".join(key_ids))
        if self._on_event is not None:
            self._on_event(KeyringReloaded(source=self._reader.name, key_ids=key_ids))
