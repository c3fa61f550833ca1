"""Spending a token: in memory, and over one bare INSERT or SET in the same kind of store."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Coroutine, Generator, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from benchmarks.cases import TTL
from benchmarks.measuring import Call, Effort, interleave
from benchmarks.rows import Row, Target
from statebox.replay import MemoryGuard, RedisGuard, ReplayGuard, SQLiteGuard

IN_MEMORY: Final = Target("spending a token with a MemoryGuard", 2.0, unit="us")
IN_SQLITE: Final = Target("spending a token with an SQLiteGuard, over one durable INSERT", None)
IN_REDIS: Final = Target("spending a token with a RedisGuard, over one SET", None)

STORES: Final = ("memory", "sqlite", *(["redis"] if shutil.which("redis-server") else []))
"""The stores that this machine can measure; Redis needs a redis-server."""

_ids = count()


def guards(effort: Effort) -> Iterator[Row]:
    """Every guard in turn, by the clock on the wall: a store is waited for."""
    with memory_calls() as calls:
        measured = interleave(calls, effort)
        beyond = measured.of(lambda at: (at["consume"] - at["bare"]) * 1e6)
        yield Row(IN_MEMORY, "a fresh id each time", beyond)
    for target, store in ((IN_SQLITE, sqlite_calls), (IN_REDIS, redis_calls)):
        if target is IN_REDIS and "redis" not in STORES:
            continue
        with store() as calls:
            measured = interleave(calls, effort.times(0.5), clock=time.perf_counter)
            yield Row(target, "a fresh id each time", measured.ratio("consume", "bare"))


@contextmanager
def memory_calls() -> Generator[dict[str, Call]]:
    """Give the call of a guard, and one that only makes up an id."""
    guard = MemoryGuard()
    yield {"consume": lambda: _at_once(_spent(guard)), "bare": lambda: _at_once(_only_an_id())}


@contextmanager
def sqlite_calls() -> Generator[dict[str, Call]]:
    """Give the call of a guard, and one INSERT that is on the disk when it returns."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(sqlite3.connect(Path(folder) / "bare", isolation_level=None)) as connection,
        asyncio.Runner() as runner,
    ):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE spent (id TEXT PRIMARY KEY, expires_at INTEGER)")
        guard = SQLiteGuard(Path(folder) / "guard")

        def insert() -> bool:
            row = (_fresh_id(), _expiry())
            return connection.execute("INSERT INTO spent VALUES (?, ?)", row).rowcount == 1

        try:
            yield {"consume": lambda: runner.run(_spent(guard)), "bare": insert}
        finally:
            runner.run(guard.aclose())


@contextmanager
def redis_calls() -> Generator[dict[str, Call]]:
    """Give the call of a guard, and one SET through the same client library."""
    with _redis_server() as socket, asyncio.Runner() as runner:
        guard, client = RedisGuard(f"unix://{socket}"), Redis(unix_socket_path=socket)

        async def put() -> bool:
            return bool(await client.set(_fresh_id(), "1", nx=True, ex=TTL))

        try:
            yield {"consume": lambda: runner.run(_spent(guard)), "bare": lambda: runner.run(put())}
        finally:
            runner.run(guard.aclose())
            runner.run(client.aclose())


@contextmanager
def _redis_server() -> Generator[str]:
    """Run a Redis that listens on a socket in a folder of its own and keeps nothing."""
    with tempfile.TemporaryDirectory() as folder:
        socket = str(Path(folder) / "redis")
        command = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", ""]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
            try:
                if not any("eady to accept connections" in line for line in server.stdout or ()):
                    raise OSError("redis-server ended at once")
                yield socket
            finally:
                server.kill()


async def _spent(guard: ReplayGuard) -> bool:
    return await guard.consume(_fresh_id(), _expiry())


async def _only_an_id() -> tuple[str, int]:
    return _fresh_id(), _expiry()


def _fresh_id() -> str:
    return f"{next(_ids):032x}"


def _expiry() -> int:
    return int(time.time()) + TTL


def _at_once(coroutine: Coroutine[Any, Any, object]) -> object:
    # A MemoryGuard waits for nothing, so no event loop is needed.
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("the guard waits for something")
