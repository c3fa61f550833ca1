"""Where the key commands read a ring from, and write it to: a file, a Redis, or stdout.

Nobody holds a lock while a person thinks. A ring is read, the new one is made of it, and it is
swapped in only if the one that was read is still there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, Protocol, Self, cast, final

import click

from statebox.errors import KeyringError
from statebox.files import locked, read_private
from statebox.keyring import Keyring
from statebox.sources.address import reader_of
from statebox.sources.command import CommandReader
from statebox.sources.environment import EnvironmentReader
from statebox.sources.file import FileReader
from statebox.sources.redis import RedisReader
from statebox_cli.output import InputError, RefusedError

ATTEMPTS: Final = 20  # each failed one is a success of another operator's


class ChangedError(KeyringError):
    """Another operator changed the ring in the meantime."""

    default_hint = "Look at the ring with `statebox keys list`, and try again."


class Store(Protocol):
    """A place that holds one ring."""

    @property
    def name(self) -> str: ...  # noqa: D102 - what messages call it, without a secret

    def read(self) -> Keyring:
        """Read the ring.

        Raises:
            KeyringError: It cannot be read, or is no ring.
        """
        ...

    def exists(self) -> bool:
        """Tell whether something lies there, a ring or not."""
        ...

    def create(self, ring: Keyring, *, force: bool = False) -> None:
        """Put a ring where there is none.

        Args:
            ring: The ring.
            force: Whether to overwrite what is there.

        Raises:
            RefusedError: Something is there.
            KeyringError: It was not written.
        """
        ...

    def swap(self, before: Keyring, after: Keyring) -> None:
        """Put a new ring in the place of the one that was read.

        Raises:
            ChangedError: Another ring is there by now.
            KeyringError: It was not written; the old ring is as it was.
        """
        ...


@final
class FileStore:
    """A file. Root may write another user's, and it stays theirs."""

    def __init__(self, reader: FileReader) -> None:
        self.name = reader.name
        self._path = reader.path

    def read(self) -> Keyring:  # noqa: D102 - of the protocol, as all below
        return Keyring.from_json(read_private(self._path, any_owner=True), where=self.name)

    def exists(self) -> bool:  # noqa: D102
        return self._path.exists() or self._path.is_symlink()

    def create(self, ring: Keyring, *, force: bool = False) -> None:  # noqa: D102
        with locked(self._path) as file:
            if file.exists() and not force:
                raise exists_error(self.name)
            file.replace(ring.to_json().encode())

    def swap(self, before: Keyring, after: Keyring) -> None:  # noqa: D102
        with locked(self._path) as file:
            if self.read() != before:
                raise _changed(self.name)
            file.replace(after.to_json().encode())


class _Pipeline(Protocol):
    """What is used of redis-py's pipeline, whose methods have no types of their own."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def watch(self, key: str) -> object: ...
    def get(self, key: str) -> bytes | None: ...
    def multi(self) -> object: ...
    def set(self, key: str, value: str) -> object: ...
    def execute(self) -> object: ...


@final
class RedisStore:
    """A key of a Redis, under its optimistic lock: WATCH, then MULTI."""

    def __init__(self, reader: RedisReader) -> None:
        self.name = reader.name
        self._reader = reader

    def read(self) -> Keyring:  # noqa: D102
        return self._ring(self._reader.read())

    def exists(self) -> bool:  # noqa: D102
        with self._reader.connection() as client:
            return bool(client.exists(self._reader.key))

    def create(self, ring: Keyring, *, force: bool = False) -> None:  # noqa: D102
        with self._reader.connection() as client:
            if not client.set(self._reader.key, ring.to_json(), nx=not force):
                raise exists_error(self.name)

    def swap(self, before: Keyring, after: Keyring) -> None:  # noqa: D102
        from redis import WatchError

        key = self._reader.key
        with (
            self._reader.connection() as client,
            cast("_Pipeline", client.pipeline()) as pipeline,  # pyright: ignore[reportUnknownMemberType]
        ):
            pipeline.watch(key)
            text = pipeline.get(key)
            if text is None or self._ring(text) != before:
                raise _changed(self.name)
            pipeline.multi()
            pipeline.set(key, after.to_json())
            try:
                pipeline.execute()
            except WatchError:
                raise _changed(self.name) from None

    def _ring(self, text: bytes) -> Keyring:
        return Keyring.from_json(text, where=self.name)


@final
class PrintedStore:
    """A variable or a command: what is read from it is written to stdout, for a secret manager."""

    def __init__(self, reader: EnvironmentReader | CommandReader) -> None:
        self.name = reader.name
        self._reader = reader

    def read(self) -> Keyring:  # noqa: D102
        return Keyring.from_json(self._reader.read(), where=self.name)

    def exists(self) -> bool:  # noqa: D102
        # A command that fails may yet hold a ring: what is to go into it is never thought the first.
        return isinstance(self._reader, CommandReader) or self.has_ring()

    def has_ring(self) -> bool:
        """Tell whether a ring, or anything else, is read from it."""
        try:
            return bool(self._reader.read().strip())
        except KeyringError:
            return False

    def create(self, ring: Keyring, *, force: bool = False) -> None:  # noqa: ARG002
        """Print the ring; nothing is overwritten by that."""
        if sys.stdout.isatty():
            raise InputError(
                "the ring holds its secrets, and is not written to a terminal",
                hint="Redirect it into a file, and store that if the command has succeeded.",
            )
        click.echo(ring.to_json(), nl=False)

    def swap(self, before: Keyring, after: Keyring) -> None:  # noqa: ARG002, D102
        self.create(after)


def _changed(name: str) -> ChangedError:
    return ChangedError(f"{name} was changed by someone else")


def exists_error(name: str) -> RefusedError:
    """Say that a ring is there already, and what to do."""
    return RefusedError(
        f"{name} exists already",
        hint="`statebox keys rotate` adds a key to it; --force puts a new ring in its place, "
        "which rejects every token of the old one.",
    )


def store_of(address: str) -> FileStore | RedisStore | PrintedStore:
    """Find the place that `--keyring` names.

    Raises:
        KeyringError: It names none.
    """
    reader = reader_of(address)
    if isinstance(reader, FileReader):
        return FileStore(reader)
    if isinstance(reader, RedisReader):
        return RedisStore(reader)
    return PrintedStore(reader)


def change(
    store: Store,
    plan: Callable[[Keyring], Keyring],
    agree: Callable[[Keyring, Keyring], bool],
) -> tuple[Keyring, Keyring, bool]:
    """Read a ring, make another one of it, and swap it in; again if someone else was faster.

    Args:
        store: Where the ring lies.
        plan: Makes the new ring.
        agree: Decides whether it is written, given both; raises what refuses it.

    Returns:
        The ring before, the ring after, and whether it was written.

    Raises:
        KeyringError: It could not be read or written, or others changed it again and again.
    """
    attempts = 0
    while True:
        before = store.read()
        after = plan(before)
        if after is before or not agree(before, after):
            return before, after, False
        try:
            store.swap(before, after)
        except ChangedError:
            attempts += 1
            if attempts == ATTEMPTS:
                raise
        else:
            return before, after, True
