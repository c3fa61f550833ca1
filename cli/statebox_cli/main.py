"""The `statebox` command: its entry point, and the one table of its commands.

Nothing but Python's own is imported here, so that a missing extra is one readable line.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Final, NoReturn, cast

COMMANDS: Final = {
    "keys": "statebox_cli.keys:keys",
    "inspect": "statebox_cli.inspect:inspect",
    "scan": "statebox_cli.scan:scan",
    "open": "statebox_cli.open:open_token",
    "seal": "statebox_cli.seal:seal",
    "demo": "statebox_cli.demo:demo",
}
"""Each command and where it lies, as `module:attribute`; loaded when it is asked for.

A command's module imports click at the top, and anything slow or optional in its functions.
"""

_OF_THE_EXTRA: Final = ("click", "rich")


def _open_streams() -> None:
    # A stream that the caller has closed is None: nothing is read, and what is written is lost.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def main() -> NoReturn:
    """Run the command that `sys.argv` names, and exit with the code that the group chose."""
    try:
        from statebox_cli.group import CommandGroup
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_EXTRA:
            raise
        sys.stderr.write(
            f"statebox: the command line needs {error.name}, which is not installed\n"
            "hint: pip install 'statebox[cli]'\n"
        )
        sys.exit(1)
    _open_streams()
    # What the terminal's encoding lacks is written as an escape, as stderr has it anyway.
    cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
    CommandGroup(COMMANDS).main(prog_name="statebox")
