"""A keyring in a file, watched by what its path resolves to."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, final

from statebox.errors import KeyringError
from statebox.files import read_private


@final
class FileReader:
    """A file. A look is one `stat`, so it is taken every second.

    Args:
        path: The file. A relative path is taken from the folder that is current now.

    Raises:
        KeyringError: The path is empty.
    """

    interval: ClassVar[float] = 1.0
    # A stat costs less than refusing the token; only a file that has changed is read.
    reread_interval: ClassVar[float] = 0.1
    slow: ClassVar[bool] = False

    def __init__(self, path: str) -> None:
        if not path:
            raise KeyringError("the keyring's path is empty", hint="Write file:PATH.")
        self.name = f"file:{path}"
        # A server may change its folder later, as daemons do.
        self.path = Path(path).absolute()

    def version(self) -> object:
        """Tell files apart: by device and inode, size, and the times of content and of mode."""
        try:
            # Follows every link: Kubernetes swaps the link of the folder, not the file.
            status = self.path.stat()
        except (OSError, ValueError):
            return None
        return (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,  # moves when the mode does, so loosened permissions are seen
        )

    def read(self) -> bytes:
        """Read the file, if it is still private."""
        return read_private(self.path)
