"""Being another user for the length of a `with` block, which only root can."""

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for two users")


@contextmanager
def nobody() -> Generator[None]:
    """Act as the user nobody, in the group of the same number."""
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder of root's that everybody may enter; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(dir=tempfile.gettempdir())).resolve()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def folder_of_nobody(parent: Path) -> Path:
    """Make a folder that belongs to nobody."""
    folder = parent / "theirs"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    return folder
