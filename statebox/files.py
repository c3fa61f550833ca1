"""A file that holds secrets: read only if nobody else can, replaced only as a whole.

Knows nothing of keys; `keyring` and `sources` know nothing of file modes.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from statebox.errors import KeyringError

MAX_BYTES: Final = 4 * 1024 * 1024  # a ring of 1,000 keys has about 200 KB


def read_private(path: str | os.PathLike[str]) -> bytes:
    """Read a file that only its owner may read or write.

    Accepted besides, for a process that is not meant to own it: a file of root's that only root
    may write, if it is mounted read-only (as Kubernetes does with secrets) or readable only
    through its group.

    Args:
        path: The file; a symbolic link is followed, and what it leads to is judged.

    Returns:
        The whole content in bytes.

    Raises:
        KeyringError: It is missing, unreadable, not a regular file, too long, or open to others.
            The hint holds the command that mends it.
    """
    shown = str(path)
    try:
        # O_NONBLOCK: opening a named pipe must not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unreadable(shown, error) from None
    except ValueError:
        raise KeyringError(
            "the keyring's path is not a path", hint="Give the path of a file."
        ) from None
    with os.fdopen(descriptor, "rb") as file:
        # INVARIANT: the descriptor that was judged is the one that is read, so that swapping
        # the name in between changes nothing.
        read_only = bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)
        _require_private(shown, os.fstat(descriptor), read_only=read_only)
        try:
            data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise _unreadable(shown, error) from None
    if len(data) > MAX_BYTES:
        raise KeyringError(
            f"{shown} is longer than {MAX_BYTES} bytes", hint="This is not a keyring file."
        )
    return data


def replace_private(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file by new content in one step; readers see the old or the new, never a part.

    Writes a temporary file of mode 0600 in the same folder, flushes it to the disk, renames it
    over the target and flushes the folder. A symbolic link stays, its target is replaced.

    Args:
        path: The file to replace or to make.
        data: The whole new content.

    Raises:
        KeyringError: The folder is missing or not writable, or the disk refused; the old file is
            then as it was.
    """
    target = Path(os.path.realpath(path))
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=".tmp"
        )  # mkstemp makes the file 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        Path(temporary).rename(target)
        temporary = None
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise KeyringError(
            f"{path} was not written: {error.strerror or 'the system refused'}",
            hint=f"Make {target.parent} a folder that this user may write to.",
        ) from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _unreadable(shown: str, error: OSError) -> KeyringError:
    if isinstance(error, FileNotFoundError):
        hint = f"Make one with `statebox keys init --keyring {shown}`, or give another path."
    elif isinstance(error, PermissionError):
        hint = f"Run as the file's owner, or: chown $(id -u) {shown} && chmod 600 {shown}"
    else:
        hint = "Give the path of a regular file."
    return KeyringError(
        f"{shown} cannot be read: {error.strerror or 'the system refused'}", hint=hint
    )


def _require_private(shown: str, status: os.stat_result, *, read_only: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyringError(f"{shown} is not a regular file", hint="Give the path of a file.")
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (0, os.geteuid()):
        raise KeyringError(
            f"{shown} belongs to another user (uid {status.st_uid})",
            hint=f"chown $(id -u) {shown} && chmod 600 {shown}",
        )
    by_root_for_us = (
        status.st_uid == 0
        and not mode & 0o022
        and (read_only or (os.geteuid() != 0 and not mode & 0o007))
    )
    if mode & 0o077 and not by_root_for_us:
        who = "written" if mode & 0o022 else "read"
        raise KeyringError(
            f"{shown} can be {who} by others (mode {mode:04o})", hint=f"chmod 600 {shown}"
        )
