"""A keyring that a command prints: the way to any KMS or secret manager.

`cmd:sops -d keyring.enc.json`, `cmd:vault kv get -field=keyring secret/statebox`.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, ClassVar, Final, cast, final

from statebox.errors import KeyringError
from statebox.files import MAX_BYTES

_BY_HAND: Final = "Run the command by hand to see what it says: its stderr is not shown here."


@final
class CommandReader:
    """What a command writes to stdout. No shell is involved, and stdin is empty.

    What it writes to stderr is dropped, and errors name the program without its arguments: both
    may hold secrets.

    Args:
        command: The program and its arguments, quoted as in a shell.
        timeout: Seconds that it may take.

    Raises:
        KeyringError: There is no command, or its quotes do not match.
    """

    interval: ClassVar[float] = 60.0
    reread_interval: ClassVar[float] = 5.0
    slow: ClassVar[bool] = True

    def __init__(self, command: str, *, timeout: float = 10.0) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError:
            raise KeyringError(
                "the keyring's command has a quote without its end", hint="Quote as in a shell."
            ) from None
        if not self._arguments:
            raise KeyringError("the keyring's command is empty", hint="Write cmd:COMMAND.")
        # No shell reads it, so this would be taken for the program, and be named in errors.
        if "=" in self._arguments[0]:
            raise KeyringError(
                "the keyring's command begins with a variable and not with a program",
                hint="Write cmd:env NAME=VALUE PROGRAM, or set the variable beforehand.",
            )
        # A server may change its folder later, as daemons do.
        self._folder = Path.cwd()
        self.name = f"cmd:{Path(self._arguments[0]).name}"
        self._timeout = timeout

    def version(self) -> object:
        """Nothing tells before it has run."""
        return None

    def read(self) -> bytes:
        """Run the command.

        Returns:
            What it wrote to stdout.

        Raises:
            KeyringError: It did not start, did not end in time, failed, or wrote too much.
        """
        try:
            # A session of its own, so that what it started can be ended with it.
            process = subprocess.Popen(  # noqa: S603 - running this is what was asked for
                self._arguments,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a command"
            raise KeyringError(
                f"{self.name} did not start: {reason}",
                hint="Give the program's whole path, or put its folder on PATH.",
            ) from None
        try:
            with cast("IO[bytes]", process.stdout) as pipe:  # asked for above
                return self._output(process, pipe, time.monotonic() + self._timeout)
        finally:
            _end(process)

    def _output(self, process: subprocess.Popen[bytes], pipe: IO[bytes], deadline: float) -> bytes:
        data = _read_all(pipe, lambda: deadline - time.monotonic())
        if data is None:
            raise KeyringError(
                f"{self.name} wrote no end within {self._timeout:g} s", hint=_BY_HAND
            )
        if len(data) > MAX_BYTES:
            raise KeyringError(f"{self.name} wrote more than {MAX_BYTES} bytes", hint=_BY_HAND)
        try:
            status = process.wait(max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            raise KeyringError(
                f"{self.name} did not end within {self._timeout:g} s", hint=_BY_HAND
            ) from None
        if status != 0:
            how = f"exit status {status}" if status > 0 else f"signal {-status}"
            raise KeyringError(f"{self.name} failed: {how}", hint=_BY_HAND)
        return data


def _read_all(pipe: IO[bytes], left: Callable[[], float]) -> bytes | None:
    """Read until the pipe ends or too much has come; None if time runs out first."""
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(data) <= MAX_BYTES:
            if not selector.select(max(left(), 0.0)):
                return None
            chunk = os.read(pipe.fileno(), 65536)
            if not chunk:
                break
            data += chunk
    return bytes(data)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # not waited for yet, so the number is still this one's
        # One that runs as another user may not be ended: not waited for without end.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
