"""A keyring in an environment variable: the JSON itself."""

from __future__ import annotations

import os
import re
from typing import ClassVar, Final, final

from statebox.errors import KeyringError

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@final
class EnvironmentReader:
    """A variable of this process.

    Args:
        variable: Its name.

    Raises:
        KeyringError: The name is empty.
    """

    # Nothing outside can change it; the process itself may.
    interval: ClassVar[float] = 60.0
    reread_interval: ClassVar[float] = 60.0
    slow: ClassVar[bool] = False

    def __init__(self, variable: str) -> None:
        # Not quoted: what is no name may be the keyring itself.
        if _NAME.fullmatch(variable) is None:
            raise KeyringError(
                "the keyring's variable has no name that a variable can have",
                hint="Write env:NAME; the variable NAME holds the JSON.",
            )
        self.name = f"env:{variable}"
        self.variable = variable

    def version(self) -> object:
        """Give the value: it differs when it differs."""
        return os.environ.get(self.variable)

    def read(self) -> str:
        """Give the value.

        Raises:
            KeyringError: It is not set.
        """
        value = os.environ.get(self.variable)
        if not value:
            raise KeyringError(
                f"{self.name} is not set",
                hint=f"Put the JSON of the keyring into {self.variable}: the text, not a path.",
            )
        return value
