"""Single use on one machine: any number of processes share one SQLite file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar, final
from urllib.parse import quote

from statebox.errors import GuardUnavailableError
from statebox.replay.guard import DEFAULT_TIMEOUT, KEPT_AFTER_EXPIRY, forgotten, late

# Expired ids dropped with each id that is added: more than one, so that the file never grows for
# want of cleaning, and few, so that nobody waits for a great cleaning.
_DROPPED: Final = 4
_RETRY: Final = 0.01  # seconds

_SCHEMA: Final = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS spent (id TEXT PRIMARY KEY, expires_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spent_by_expiry ON spent (expires_at);
CREATE TABLE IF NOT EXISTS answers (id TEXT PRIMARY KEY, expires_at INTEGER NOT NULL, answer BLOB);
CREATE INDEX IF NOT EXISTS answers_by_expiry ON answers (expires_at);
CREATE TABLE IF NOT EXISTS memory (since INTEGER NOT NULL);
INSERT INTO memory SELECT {since:d} WHERE NOT EXISTS (SELECT 1 FROM memory);
COMMIT;
"""

_CLEAN: Final = {
    table: f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE expires_at <= ? "  # noqa: S608
    "ORDER BY expires_at LIMIT ?)"
    for table in ("spent", "answers")
}
_T = TypeVar("_T")


@final
class SQLiteGuard:
    """Remembers spent tokens in a file, for all processes of one machine.

    The file is made if it is missing, and only its owner can read it. A token counts as spent when
    it is on the disk (WAL, `synchronous=FULL`), so neither a crash nor a power failure brings it
    back. What was sealed before the file was made is refused: an earlier file may have known it.
    The file must be on a disk of this machine: SQLite's WAL does not work over a network.

    All work is done in a thread of the guard's own; the event loop never waits for the disk. Make
    the guard before or after a fork, but do not use it before one.

    Args:
        path: The file.
        timeout: After how many seconds without an answer a token is refused.
        clock: Gives the time in seconds since 1970.

    Raises:
        GuardUnavailableError: The file cannot be made or used, or others may write to it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = DEFAULT_TIMEOUT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.timeout = timeout
        self._path = os.path.abspath(path)  # noqa: PTH100 - a later chdir changes nothing
        self._clock = clock
        self._file: _File | None = None
        self._identity: tuple[int, int] | None = None
        self._seen = 0.0
        # One thread, so that one connection is enough.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="statebox-sqlite")
        # The memory begins now and not with the first token that comes back. The connection is
        # closed again, for a fork may follow.
        try:
            _File(self._path, timeout, clock()).close()
        except (sqlite3.Error, OSError) as error:
            raise _unavailable(error) from error

    async def consume(self, token_id: str, expires_at: int, issued_at: int | None = None) -> bool:
        """Spend a token; see `ReplayGuard`.

        Args:
            token_id: 32 hex digits that name the token.
            expires_at: When the token ends, in seconds since 1970.
            issued_at: When it was sealed, in seconds since 1970; None: not known.

        Returns:
            True the first time, False ever after.

        Raises:
            GuardUnavailableError: The token is older than the file; the disk is full, the file is
                locked or broken, or it took too long.
        """
        return await self._work(
            lambda file, now: file.consume(token_id, expires_at, issued_at, now)
        )

    async def put(self, token_id: str, answer: bytes, expires_at: int) -> None:
        """Keep the answer to a token; see `AnswerStore`."""
        await self._work(lambda file, now: file.put(token_id, answer, expires_at, now))

    async def get(self, token_id: str) -> bytes | None:
        """Give the answer to a token, or None; see `AnswerStore`."""
        return await self._work(lambda file, _now: file.get(token_id))

    async def aclose(self) -> None:
        """Close the file, after what is under way. The guard opens it if it is used again."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)

    async def _work(self, job: Callable[[_File, float], _T]) -> _T:
        def in_the_thread() -> _T:
            return job(self._open(), self._clock())

        try:
            async with asyncio.timeout(self.timeout):
                # What is given up before its turn comes is not begun.
                return await asyncio.get_running_loop().run_in_executor(self._thread, in_the_thread)
        except TimeoutError as error:
            raise late(self.timeout) from error
        except (sqlite3.Error, OSError) as error:
            raise _unavailable(error) from error

    def _open(self) -> _File:
        now = self._clock()
        # Somebody may have removed or replaced the file, and others write to the new one.
        if self._file is None or not self._file.is_at(self._path):
            self._close()
            self._file = _File(self._path, self.timeout, now)
            # INVARIANT: a file whose memory begins before the last one was seen here is an older
            # copy of it, and knows less. One that was made since then knows all there is.
            if self._identity not in (None, self._file.identity) and self._file.since < self._seen:
                self._file.forget(now)
            self._identity = self._file.identity
        self._seen = now
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


@final
class _File:
    """One connection to the file. Everything here blocks."""

    def __init__(self, path: str, timeout: float, now: float) -> None:
        # SQLite would make it readable by all. Nothing is opened that exists: closing it again
        # would drop the locks that another connection of this process holds (POSIX).
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        if stat.S_IMODE(os.stat(path).st_mode) & 0o022:  # noqa: PTH116
            raise PermissionError(f"others may write to it: chmod 600 {path}")
        self._connection = sqlite3.connect(
            f"file:{quote(path)}?mode=rw",
            uri=True,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self.identity = _identity(path)
            self._prepare(timeout, now)
        except BaseException:
            self.close()
            raise

    def _prepare(self, timeout: float, now: float) -> None:
        execute = self._connection.execute
        until = time.monotonic() + timeout
        # The change to WAL does not wait for others by itself.
        while True:
            try:
                execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(_RETRY)
        execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_SCHEMA.format(since=int(now)))
        (self.since,) = execute("SELECT since FROM memory").fetchone()

    def forget(self, now: float) -> None:
        """Let the memory begin now, for every process that opens this file from here on."""
        self._connection.execute("UPDATE memory SET since = max(since, ?)", (int(now) + 1,))
        (self.since,) = self._connection.execute("SELECT since FROM memory").fetchone()

    def is_at(self, path: str) -> bool:
        """Tell whether the path still leads to the file that is open."""
        try:
            return _identity(path) == self.identity
        except FileNotFoundError:
            return False

    def consume(self, token_id: str, expires_at: int, issued_at: int | None, now: float) -> bool:
        """Spend a token; durable when this returns True."""
        execute = self._connection.execute
        horizon = int(now) - KEPT_AFTER_EXPIRY
        # Reading needs no lock and no disk, so a flood of replays holds up nobody. An id as old as
        # those that are dropped may be one of them.
        if (
            expires_at <= horizon
            or execute("SELECT 1 FROM spent WHERE id = ?", (token_id,)).fetchone()
        ):
            return False
        if issued_at is not None and issued_at < self.since:
            raise forgotten("the guard's file")
        insert = "INSERT INTO spent VALUES (?, ?) ON CONFLICT DO NOTHING"
        return self._write("spent", horizon, insert, (token_id, expires_at)) == 1

    def put(self, token_id: str, answer: bytes, expires_at: int, now: float) -> None:
        """Keep an answer."""
        insert = "INSERT INTO answers VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        horizon = int(now) - KEPT_AFTER_EXPIRY
        self._write("answers", horizon, insert, (token_id, expires_at, answer))

    def get(self, token_id: str) -> bytes | None:
        """Give an answer."""
        query = "SELECT answer FROM answers WHERE id = ?"
        found = self._connection.execute(query, (token_id,)).fetchone()
        return None if found is None else bytes(found[0])

    def _write(
        self, table: str, horizon: int, insert: str, row: tuple[str | int | bytes, ...]
    ) -> int:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            added = execute(insert, row).rowcount
            if added:
                execute(_CLEAN[table], (horizon, _DROPPED))
            execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                execute("ROLLBACK")
            raise
        return added

    def close(self) -> None:
        """Close the connection, whatever state it is in."""
        with suppress(sqlite3.Error):
            self._connection.close()


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116
    return status.st_dev, status.st_ino


def _unavailable(error: sqlite3.Error | OSError) -> GuardUnavailableError:
    return GuardUnavailableError(
        f"the guard's file gave no answer: {error}",
        hint="Look at the file's disk, its folder and its permissions; the client may try again.",
    )
