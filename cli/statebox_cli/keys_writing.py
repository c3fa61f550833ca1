"""How every command that changes a ring goes about it: plan, refuse, ask, write, tell.

What would reject tokens that can be alive is refused without --force, with the time to wait for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from statebox.errors import StateboxError, UnknownKeyError
from statebox.keyring import Keyring
from statebox.keys import Key
from statebox_cli import output
from statebox_cli.keys_lifetimes import Loss, lagging, losses, outage
from statebox_cli.keys_options import Write
from statebox_cli.keys_store import PrintedStore, change, exists_error, store_of
from statebox_cli.keys_telling import changes, described, tell
from statebox_cli.output import InputError, RefusedError
from statebox_cli.times import both, relative


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
    asked: Write,
    plan: Callable[[Keyring], Keyring],
    *,
    question: str | None = None,
    besides: Callable[[Keyring], list[str]] | None = None,
) -> None:
    """Carry out one change of a ring, and print what became of it.

    Args:
        asked: What the person asked for.
        plan: Makes the new ring of the old one.
        question: What to ask before writing; None: nothing.
        besides: What to say of the new ring besides what has changed, in lines.

    Raises:
        RefusedError: The change would reject live tokens.
        KeyringError: The ring cannot be read or written.
        InputError: There is a question and nobody to answer it.
        UntoldError: The ring was written, and what became of it cannot be printed.
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
    tell(asked, store, before, after, written=written, besides=besides(after) if besides else [])


def create(asked: Write, ring: Keyring) -> None:
    """Put a ring where there is none, and print it.

    Raises:
        RefusedError: There is one, and it is not to be overwritten.
        KeyringError: It cannot be written.
        InputError: It is to be overwritten, and there is nobody to ask.
        UntoldError: It was written, and cannot be printed.
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
    tell(asked, store, None, ring, written=not asked.dry_run)


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
    data = described(asked, before, after) | {"written": False, "error": problem._asdict()}
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


def _lost(asked: Write, before: Keyring, after: Keyring) -> list[str]:
    lost = losses(before, after, asked.now)
    if not lost:
        return ["no live token is rejected"]
    return [f"REJECTS tokens of {_kids(lost)}, alive until {both(lost[-1].until, asked.now)}"]


def _kids(lost: list[Loss]) -> str:
    return ", ".join(loss.key.kid for loss in lost)


def require_consent(
    question: str,
    lines: list[str],
    *,
    hint: str = "Give --yes; --dry-run shows what would change.",
) -> None:
    """Ask before something that cannot be taken back.

    Args:
        question: What to ask.
        lines: What to show before it.
        hint: What to do where there is nobody to ask.

    Raises:
        InputError: There is no terminal to ask at.
        click.Abort: The answer was no.
    """
    if not sys.stdin.isatty():
        raise InputError(
            "this is to be confirmed, and there is no terminal to ask at",
            hint=hint,
        )
    for line in lines:
        click.echo(line, err=True)
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C or Ctrl-D: the cursor stands behind the question
        output.aside("")
        raise
    if not agreed:
        raise click.Abort
