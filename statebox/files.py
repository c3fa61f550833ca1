"""A file that holds secrets: read only if nobody else can, replaced only as a whole and by one.

Knows nothing of keys; `keyring` and `sources` know nothing of file modes.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, final

from statebox.errors import KeyringError

MAX_BYTES: Final = 4 * 1024 * 1024  # a ring of 1,000 keys has about 200 KB
LOCK_TIMEOUT: Final = 10.0  # seconds
_LOCK_PAUSE: Final = 0.02  # seconds
_MAX_LINKS: Final = 40  # Linux follows as many


def read_private(path: str | os.PathLike[str], *, any_owner: bool = False) -> bytes:
    """Read a file that only its owner may read or write.

    Accepted besides, for a process that is not meant to own it: a file of root's that only root
    may write, if it is mounted read-only (as Kubernetes does with secrets) or readable only
    through its group.

    Args:
        path: The file; a symbolic link is followed, and what it leads to is judged.
        any_owner: Whether root may read another user's file, in order to write it back to them.

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
    try:
        # INVARIANT: the descriptor that was judged is the one that is read, so that swapping
        # the name in between changes nothing.
        status = os.fstat(descriptor)
        read_only = bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)
        if not (any_owner and os.geteuid() == 0):
            _require_owned(shown, status)
        _require_private(shown, status, read_only=read_only)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(shown, error) from None
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise KeyringError(
            f"{shown} is longer than {MAX_BYTES} bytes", hint="This is not a keyring file."
        )
    return data


@contextmanager
def locked(
    path: str | os.PathLike[str], *, timeout: float = LOCK_TIMEOUT
) -> Generator[PrivateFile]:
    """Keep every other writer of a file out, for the length of a `with` block.

    The lock is an flock on `.NAME.lock` beside the file, and the system drops it when the process
    ends, however it ends: a lock file that was left behind locks nothing, and stays.

    Args:
        path: The file to write, which need not exist. A symbolic link is followed, unless it
            leads into the folder of another owner.
        timeout: Seconds to wait for another writer.

    Yields:
        The file.

    Raises:
        KeyringError: The folder cannot be written to, a link leads where it may not, or another
            writer did not end in time.
    """
    shown = str(path)
    folder: int | None = None
    lock: int | None = None
    try:
        target, links = _resolve(Path(path))
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        owner = os.fstat(folder).st_uid
        _require_trusted(shown, target, links, owner)
        lock = os.open(
            f".{target.name}.lock",
            os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
            dir_fd=folder,
        )
        if os.geteuid() == 0:
            os.fchown(lock, owner, -1)  # or the owner could never take the lock again
        _acquire(shown, lock, timeout)
        file = PrivateFile(target, folder, shown)
        file.remove_leftovers()
    except (OSError, ValueError) as error:
        _close(lock, folder)
        raise _unwritable(shown, error) from None
    except KeyringError:
        _close(lock, folder)
        raise
    try:
        yield file
    finally:
        _close(lock, folder)


@final
class PrivateFile:
    """A file that only its owner may read or write, while `locked` keeps other writers out."""

    __slots__ = ("_folder", "_path", "_shown")

    def __init__(self, path: Path, folder: int, shown: str) -> None:
        self._path = path
        self._folder = folder
        self._shown = shown

    def exists(self) -> bool:
        """Tell whether there is such a file."""
        return self._status() is not None

    def replace(self, data: bytes) -> None:
        """Replace the file by new content in one step; readers see the old or the new, never a part.

        Writes a temporary file of mode 0600 in the same folder, flushes it to the disk, renames
        it over the file and flushes the folder. What root writes keeps its owner.

        Args:
            data: The whole new content.

        Raises:
            KeyringError: The folder or the disk refused; the old file is then as it was.
        """
        temporary = f".{self._path.name}.{os.urandom(8).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            old = self._status()
            descriptor = os.open(temporary, flags, 0o600, dir_fd=self._folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    if old is not None and os.geteuid() == 0:
                        os.fchown(descriptor, old.st_uid, old.st_gid)
                    file.write(data)
                    file.flush()
                    os.fsync(descriptor)
                # Relative to the folder that was judged, so that swapping it changes nothing.
                os.rename(
                    temporary,
                    self._path.name,
                    src_dir_fd=self._folder,
                    dst_dir_fd=self._folder,
                )
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=self._folder)
                raise
            os.fsync(self._folder)
        except OSError as error:
            raise _unwritable(self._shown, error) from None

    def remove_leftovers(self) -> None:
        """Remove the temporary files of writers that were killed; the lock says that none is alive."""
        leftover = re.compile(rf"\.{re.escape(self._path.name)}\.[0-9a-f]{{16}}\.tmp")
        for name in os.listdir(self._folder):  # noqa: PTH208 - of a descriptor
            if leftover.fullmatch(name):
                with suppress(OSError):
                    os.unlink(name, dir_fd=self._folder)

    def _status(self) -> os.stat_result | None:
        try:
            return os.stat(self._path.name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


def _resolve(path: Path) -> tuple[Path, list[int]]:
    """Follow every link of a path by hand, and give the owners of those links as well."""
    at, owners = Path("/"), list[int]()
    left = list(path.absolute().parts[1:])
    while left:
        part = left.pop(0)
        if part == "..":
            at = at.parent
            continue
        at /= part
        try:
            status = at.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(status.st_mode):
            owners.append(status.st_uid)
            if len(owners) > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            # An absolute one begins again at the root.
            at, left = at.parent, [*at.readlink().parts, *left]
    return at, owners


def _require_trusted(shown: str, target: Path, links: list[int], owner: int) -> None:
    # INVARIANT: who made a link cannot make another one write where the maker could not. Root's
    # links are followed to what is one's own, as /var/run is.
    trusted = {owner, 0} if owner == os.geteuid() else {owner}
    if not trusted.issuperset(links):
        raise KeyringError(
            f"{shown} is a link into a folder of another owner (uid {owner})",
            hint=f"Name the file itself, if that is meant: {target}",
        )


def _acquire(shown: str, lock: int, timeout: float) -> None:
    import fcntl  # a server only reads, also where there is no such module

    until = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise KeyringError(
                    f"another command is writing {shown}", hint="Try again when it has ended."
                ) from None
            time.sleep(_LOCK_PAUSE)
        else:
            return


def _close(*descriptors: int | None) -> None:
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)


def _unwritable(shown: str, error: OSError | ValueError) -> KeyringError:
    folder = Path(shown).parent
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        hint = f"mkdir -p -m 700 {folder}"
    elif isinstance(error, PermissionError):
        hint = f"Run as the owner of {folder}."
    else:
        hint = f"Look at the disk and the folder: df {folder}; ls -ld {folder}"
    reason = error.strerror if isinstance(error, OSError) else "not a path"
    return KeyringError(f"{shown} was not written: {reason or 'the system refused'}", hint=hint)


def _unreadable(shown: str, error: OSError) -> KeyringError:
    if isinstance(error, FileNotFoundError):
        # Read at a start and by a running replica alike, so the copy comes first: a new ring rejects
        # every live token of one that was there.
        hint = (
            "Put its copy back if there was one; give another path; or, for the first, "
            f"`statebox keys init --keyring {shown}`."
        )
    elif isinstance(error, PermissionError):
        hint = f"Run as the file's owner, or: chown $(id -u) {shown} && chmod 600 {shown}"
    else:
        hint = "Give the path of a regular file."
    return KeyringError(
        f"{shown} cannot be read: {error.strerror or 'the system refused'}", hint=hint
    )


def _require_owned(shown: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise KeyringError(
            f"{shown} belongs to another user (uid {status.st_uid})",
            hint=f"chown $(id -u) {shown} && chmod 600 {shown}",
        )


def _require_private(shown: str, status: os.stat_result, *, read_only: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyringError(f"{shown} is not a regular file", hint="Give the path of a file.")
    mode = stat.S_IMODE(status.st_mode)
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
