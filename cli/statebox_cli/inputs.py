"""What an option or an argument names, read: a keyring, a file, a token, a request, a principal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from statebox import Keyring, Request
from statebox.sources import open_source
from statebox_cli.find import Call, call_of
from statebox_cli.mend import without_line_end
from statebox_cli.output import InputError, note

MAX_INPUT_BYTES: Final = 64 * 1024 * 1024


def load_keyring(source: str) -> Keyring:
    """Read a ring once from where `--keyring` says.

    Args:
        source: A path, or `file: env: cmd: redis:` and a place.

    Returns:
        The ring.

    Raises:
        KeyringError: It cannot be read, or is no keyring.
    """
    return open_source(source).current()


def stdin_for(what: str, hint: str) -> str:
    """Give the name of stdin, for a command that was told of no file.

    Args:
        what: What it is to hold.
        hint: How to name a file instead, or stdin.

    Returns:
        `-`.

    Raises:
        InputError: It is a terminal, and whoever sits there does not know that it is waited for.
    """
    if sys.stdin.isatty():
        raise InputError(f"there is no {what}", hint=hint)
    return "-"


def read_input(path: str) -> bytes:
    """Read a file that a person named, or stdin.

    Args:
        path: The file; `-` is stdin.

    Returns:
        The whole content.

    Raises:
        InputError: It cannot be read, or is longer than 64 MiB.
    """
    if not path:
        raise InputError("the name of a file is empty")
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_INPUT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise InputError(f"{path} cannot be read: {reason}") from None
    if len(data) > MAX_INPUT_BYTES:
        raise InputError(f"{path} is longer than 64 MiB", hint="`statebox scan` reads long files.")
    return data


def require_plain(path: str, start: bytes, command: str) -> None:
    """Refuse a compressed file, in which nothing would be found.

    Args:
        path: Its name, for the message.
        start: Its first bytes.
        command: The command that it was given to.

    Raises:
        InputError: It begins as gzip does (RFC 1952, section 2.3.1).
    """
    if start.startswith(b"\x1f\x8b\x08"):
        name = "FILE" if path == "-" else path
        raise InputError(
            f"{'stdin' if path == '-' else path} looks like gzip",
            hint=f"Run `zcat {name} | statebox {command} -`.",
        )


def read_token(path: str) -> str:
    """Read a token from a file or from stdin; trim the blanks around it, and say so.

    One line break at the end is no news: every file has one.

    Args:
        path: The file; `-` is stdin.

    Returns:
        The token, of any content.

    Raises:
        InputError: It cannot be read.
    """
    text = without_line_end(read_input(path).decode("utf-8", "replace"))
    if text.strip() != text:
        note("the token had blanks around it, which were trimmed")
    return text.strip()


def load_call(path: str | None) -> Call | None:
    """Read the JSON-RPC request of `--request FILE`.

    Args:
        path: The file; `-` is stdin; None: no request.

    Returns:
        The request, or None.

    Raises:
        InputError: It cannot be read, or is no JSON-RPC request that a token can be bound to.
    """
    if path is None:
        return None
    try:
        call = call_of(json.loads(read_input(path)))
        if call is None:
            raise ValueError
        request_of(call)
    except (ValueError, TypeError, RecursionError):
        # `from None`: the decoder's error carries the whole document.
        raise InputError(
            f"{path} is not a JSON-RPC request",
            hint='Give the whole message: {"method": "tools/call", "params": {...}}.',
        ) from None
    return call


def request_of(call: Call | None) -> Request | None:
    """Give the request that tokens are bound to."""
    return None if call is None else Request.from_params(call.method, call.params)


def principal_of(parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """Give the principal of `--principal` options: their values, or None where there is none.

    Raises:
        InputError: All parts are empty.
    """
    if parts and not any(parts):
        raise InputError("the principal is empty", hint="Leave --principal out to bind to nobody.")
    return parts or None
