"""How every command that changes a ring goes about it: plan, refuse, ask, write, tell.

What would reject tokens that can be alive is refused without --force, with the time to wait for.
"""

from __future__ import annotations

import functools
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from statebox.errors import StateboxError, UnknownKeyError
from statebox.keyring import Keyring
from statebox.keys import Key
from statebox_cli import options, output
from statebox_cli.keys_lifetimes import Loss, lagging, losses, outage
from statebox_cli.keys_store import PrintedStore, Store, change, exists_error, store_of
from statebox_cli.keys_view import ring_text, ring_view
from statebox_cli.output import WIDTH, InputError, RefusedError
from statebox_cli.times import both, relative


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What a person asked for, apart from the change itself.

    Attributes:
        keyring: The address of the ring.
        now: The moment of the change, in seconds since 1970.
        dry_run: Whether nothing is to be written.
        as_json: Whether to print JSON.
        yes: Whether nothing is to be asked.
        force: Whether live tokens may be rejected.
    """

    keyring: str
    now: int
    dry_run: bool
    as_json: bool
    yes: bool
    force: bool


def writes(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every writing command; the command gets `asked: Write`."""

    @functools.wraps(function)
    def command(
        *, keyring: str, dry_run: bool, as_json: bool, yes: bool, force: bool, **others: object
    ) -> None:
        asked = Write(
            keyring=keyring,
            now=int(options.moment(None)),  # roles change at whole seconds
            dry_run=dry_run,
            as_json=as_json,
            yes=yes,
            force=force,
        )
        function(asked=asked, **others)

    for option in (
        options.json_option,
        click.option("--force", is_flag=True, help="Do it though live tokens are rejected."),
        click.option("--yes", is_flag=True, help="Do not ask; needed without a terminal."),
        click.option("--dry-run", is_flag=True, help="Show before and after, and write nothing."),
        options.keyring_option(required=True),
    ):
        command = option(command)
    return command


def key_of(ring: Keyring, kid: str) -> Key:
    """Find the key that a person named.

    Raises:
        UnknownKeyError: The ring has no such key.
    """
    key = ring.get(kid)
    if key is None:
        raise UnknownKeyError(
            f"the ring has no key {output.printable(kid)[:40]}",
            hint=f"It has {', '.join(key.kid for key in ring)}.",
        )
    return key


def write(
    asked: Write, plan: Callable[[Keyring], Keyring], *, question: str | None = None
) -> tuple[Keyring, Keyring]:
    """Carry out one change of a ring, and print what became of it.

    Args:
        asked: What the person asked for.
        plan: Makes the new ring of the old one.
        question: What to ask before writing; None: nothing.

    Returns:
        The ring before and after.

    Raises:
        RefusedError: The change would reject live tokens.
        KeyringError: The ring cannot be read or written.
        InputError: There is a question and nobody to answer it.
    """
    store = store_of(asked.keyring)

    def planned(ring: Keyring) -> Keyring:
        try:
            if not asked.force:
                require_clock(ring, asked.now)
            return plan(ring)
        except StateboxError as error:
            raise _refused(asked, ring, ring, error) from None

    def agree(before: Keyring, after: Keyring) -> bool:
        if not asked.force:
            _require_harmless(asked, before, after)
        if asked.dry_run:
            return False
        if question is not None and not asked.yes:
            require_consent(
                question, [*changes(before, after, asked.now), *_lost(asked, before, after)]
            )
        return True

    before, after, written = change(store, planned, agree)
    _tell(asked, store, before, after, written=written)
    return before, after


def create(asked: Write, ring: Keyring) -> None:
    """Put a ring where there is none, and print it.

    Raises:
        RefusedError: There is one, and it is not to be overwritten.
        KeyringError: It cannot be written.
        InputError: It is to be overwritten, and there is nobody to ask.
    """
    store = store_of(asked.keyring)
    if store.has_ring() if isinstance(store, PrintedStore) else store.exists():
        if not asked.force:
            raise _refused(asked, None, ring, exists_error(store.name))
        if not (asked.dry_run or asked.yes):
            require_consent(
                f"Put a new ring in the place of {store.name}?", ["REJECTS every token so far"]
            )
    if not asked.dry_run:
        store.create(ring, force=asked.force)
    _tell(asked, store, None, ring, written=not asked.dry_run)


def _tell(
    asked: Write, store: Store, before: Keyring | None, after: Keyring, *, written: bool
) -> None:
    lines = changes(before, after, asked.now) or ["nothing to change"]
    lines = [line for said in lines for line in textwrap.wrap(said, WIDTH, subsequent_indent="  ")]
    if asked.dry_run and before is not None:
        lines += ["", "BEFORE", ring_text(before, asked.now), "", "AFTER"]
    else:
        lines.append("")
    lines.append(ring_text(after, asked.now))
    if isinstance(store, PrintedStore) and not asked.dry_run:
        # Its stdout is the ring, to be stored; what there is to say goes beside it.
        click.echo("\n".join(lines), err=True)
        if written:
            output.note(f"{store.name} cannot be written to: the new ring is on stdout")
        else:
            store.create(after)  # what stands in its place would be stored as the ring
        return
    data = _data(asked, before, after) | {"written": written}
    output.emit(data, "\n".join(lines), as_json=asked.as_json)
    if asked.dry_run:
        output.note("nothing was written")


def changes(before: Keyring | None, after: Keyring, now: float) -> list[str]:
    """Say in words in what two rings differ, one line for each key."""
    gone = [] if before is None else [key for key in before if after.get(key.kid) is None]
    lines = [f"{key.kid} is taken out" for key in gone]
    for key in after:
        old = None if before is None else before.get(key.kid)
        if old == key:
            continue
        said: list[str] = []
        if old is None:
            said.append(f"is new, for {key.alg}")
        if key.revoked is not None and (old is None or old.revoked is None):
            said.append("is revoked, and opens nothing")
        elif old is None or old.nbf != key.nbf:
            said.append(f"seals from {both(key.nbf, now)}")
        if key.exp is not None and (old is None or old.exp != key.exp):
            said.append(f"opens until {both(key.exp, now)}")
        elif key.exp is None and old is not None and old.exp is not None:
            said.append("opens without end")
        lines.append(f"{key.kid} {'; '.join(said)}")
    return lines


def _require_harmless(asked: Write, before: Keyring, after: Keyring) -> None:
    error: RefusedError | None = None
    lost = losses(before, after, asked.now)
    if outage(before, after, asked.now):
        error = RefusedError(
            "a replica, if only one whose clock is behind, would have no good key to seal with",
            hint="Wait a minute, or add a key first: statebox keys rotate",
        )
    if lost:
        error = RefusedError(
            f"tokens of {_kids(lost)} can be alive until {both(lost[-1].until, asked.now)}",
            hint="Wait until then, or give --force to reject them now.",
        )
    if error is not None:
        raise _refused(asked, before, after, error)


def _refused(
    asked: Write, before: Keyring | None, after: Keyring, error: StateboxError
) -> Exception:
    """Give what ends the command: as JSON a refusal has all members, and is written here."""
    if not asked.as_json:
        return error
    problem = output.problem_of(error)
    data = _data(asked, before, after) | {"written": False, "error": problem._asdict()}
    output.emit(data, "", as_json=True)
    return click.exceptions.Exit(problem.exit_code)


def require_clock(ring: Keyring, now: float) -> None:
    """Refuse to judge by a clock that is behind: to it, a key that seals has not begun.

    Raises:
        RefusedError: A key was made or revoked after *now*.
    """
    late = lagging(ring, now)
    if late is not None:
        raise RefusedError(
            f"this clock is behind: by it, {late[0].kid} was changed {relative(late[1], now)}",
            hint="Set the clock; --force goes by it as it is, and may reject live tokens.",
        )


def _data(asked: Write, before: Keyring | None, after: Keyring) -> dict[str, Any]:
    lost = [] if before is None else losses(before, after, asked.now)
    return {
        "keyring": store_of(asked.keyring).name,
        "dry_run": asked.dry_run,
        "before": [] if before is None else ring_view(before, asked.now),
        "after": ring_view(after, asked.now),
        "rejects": [{"kid": loss.key.kid, "until": loss.until} for loss in lost],
    }


def _lost(asked: Write, before: Keyring, after: Keyring) -> list[str]:
    lost = losses(before, after, asked.now)
    if not lost:
        return ["no live token is rejected"]
    return [f"REJECTS tokens of {_kids(lost)}, alive until {both(lost[-1].until, asked.now)}"]


def _kids(lost: list[Loss]) -> str:
    return ", ".join(loss.key.kid for loss in lost)


def require_consent(question: str, lines: list[str]) -> None:
    """Ask before something that cannot be taken back.

    Args:
        question: What to ask.
        lines: What to show before it.

    Raises:
        InputError: There is no terminal to ask at.
        click.Abort: The answer was no.
    """
    if not sys.stdin.isatty():
        raise InputError(
            "this is to be confirmed, and there is no terminal to ask at",
            hint="Give --yes; --dry-run shows what would change.",
        )
    for line in lines:
        click.echo(line, err=True)
    click.confirm(question, abort=True, err=True)
