"""The group of all commands: loads the one that is asked for, and ends every run in one way.

Ends: data and exit code 0; or one error, written by `output.report`, and the exit code that
`output.EXIT_CODES` gives it. No traceback reaches a terminal: its lines could show what is secret.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn, cast

import click

from statebox import __version__
from statebox_cli import output
from statebox_cli.output import InputError

_INTERRUPTED: Final = 130  # what a shell reports for SIGINT ...
_PIPE_CLOSED: Final = 141  # ... and for SIGPIPE

_HELP: Final = """Seal a server's half-finished work into tokens, and say why one was rejected.

\b
Start here:
  statebox demo                              watch a flow move between two servers
  statebox keys init --keyring keyring.json  make a keyring
  pbpaste | statebox inspect -               why was this token rejected?

Every command prints data on stdout and notes on stderr, and takes --json.

\b
Exit codes:
  0 fine   1 unexpected   2 usage   3 malformed or too large   4 authentication
  5 unknown, revoked or expired key   6 expired, early, or the flow is over
  7 audience, principal or request    8 keyring   9 refused    10 replayed

\b
Shell completion (bash; zsh and fish alike):
  eval "$(_STATEBOX_COMPLETE=bash_source statebox)"
"""


class CommandGroup(click.Group):
    """All commands, each loaded when it is asked for.

    Args:
        commands: Where each command lies, as `module:attribute`.
    """

    def __init__(self, commands: Mapping[str, str]) -> None:
        super().__init__(
            name="statebox",
            help=_HELP,
            no_args_is_help=True,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
        )
        self._places = commands
        click.version_option(__version__, prog_name="statebox", message="%(prog)s %(version)s")(
            self
        )

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Name the commands, in the order of the table."""
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command; None if there is no such one."""
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, attribute = place.split(":")
        return cast("click.Command", getattr(importlib.import_module(module), attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for, or name one that is spelt alike."""
        near = get_close_matches(args[0], self._places, n=1)
        if near and args[0] not in self._places and not ctx.resilient_parsing:
            # click knows only of commands that are loaded.
            raise InputError(f"no such command '{args[0]}'", hint=f"Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002, FBT002 - click's signature
        **extra: Any,  # noqa: ANN401
    ) -> NoReturn:
        """Run one command, write its error if it has one, and exit."""
        arguments = list(sys.argv[1:] if args is None else args)
        self._main_shell_completion(extra, prog_name or "statebox", complete_var)
        sys.exit(self._run(arguments, extra))

    def _run(self, arguments: list[str], extra: dict[str, Any]) -> int:
        code = 0
        try:
            code = self._outcome(arguments, extra)
            sys.stdout.flush()  # here, so that a closed pipe is noticed here
        except BrokenPipeError:
            code = _PIPE_CLOSED
        except KeyboardInterrupt:
            code = _INTERRUPTED
        except OSError as error:
            # What failed within a command was reported there, and its exit code stands.
            code = code or output.report(error, None, as_json=False)
        output.let_go()
        return code

    def _outcome(self, arguments: list[str], extra: dict[str, Any]) -> int:
        # Asked of the arguments themselves: an error in them is also to be one JSON object.
        as_json = "--json" in arguments
        ctx: click.Context | None = None
        try:
            with self.make_context("statebox", list(arguments), **extra) as ctx:
                self.invoke(ctx)
        except click.exceptions.Exit as end:
            return end.exit_code
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - a traceback could show a secret
            return output.report(error, ctx, as_json=as_json)
        return 0
