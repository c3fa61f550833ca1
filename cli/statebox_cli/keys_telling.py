"""What a command that changes a ring says of the change: in words, as a picture, as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from statebox.errors import StateboxError
from statebox.keyring import Keyring
from statebox.keys import Key
from statebox_cli import output
from statebox_cli.keys_lifetimes import losses
from statebox_cli.keys_options import Write
from statebox_cli.keys_store import PrintedStore, Store, store_of
from statebox_cli.keys_view import ring_text, ring_view
from statebox_cli.output import WIDTH
from statebox_cli.times import both


class UntoldError(StateboxError):
    """The ring was written, and what became of it could not be printed."""

    code = "unexpected"
    default_hint = "Do not run it again: `statebox keys list` shows the ring as it is now."


def tell(
    asked: Write,
    store: Store,
    before: Keyring | None,
    after: Keyring,
    *,
    written: bool,
    besides: Sequence[str] = (),
) -> None:
    """Print what became of a ring.

    Args:
        asked: What the person asked for.
        store: Where the ring lies.
        before: The ring as it was, if there was one.
        after: The ring as it is, or would be.
        written: Whether it was written.
        besides: What else there is to say to a person, in lines.

    Raises:
        UntoldError: It was written, and cannot be printed.
    """
    if isinstance(store, PrintedStore) and not asked.dry_run:
        # Its stdout is the ring, to be stored; what there is to say goes beside it.
        output.aside(_text(asked, before, after, besides))
        if written:
            output.note(f"{store.name} cannot be written to: the new ring is on stdout")
        else:
            store.create(after)  # what stands in its place would be stored as the ring
        return
    with _said_as_written(store, written=written):
        data = described(asked, before, after) | {"written": written}
        text = "" if asked.as_json else _text(asked, before, after, besides)
        output.emit(data, text, as_json=asked.as_json)
    if asked.dry_run:
        output.note("nothing was written")


@contextmanager
def _said_as_written(store: Store, *, written: bool) -> Generator[None]:
    # Whoever is told of nothing but a failure does it again, and has rotated twice.
    try:
        yield
    except (BrokenPipeError, KeyboardInterrupt):
        if written:
            output.note(f"{store.name} was written", UntoldError.default_hint)
        raise
    except Exception as error:
        if not written:
            raise
        why = output.problem_of(error).message
        raise UntoldError(
            f"{store.name} was written, and only the report of it failed: {why}"
        ) from error


def described(asked: Write, before: Keyring | None, after: Keyring) -> dict[str, Any]:
    """Give the members of `--json`, but for `written` and `error`."""
    lost = [] if before is None else losses(before, after, asked.now)
    return {
        "keyring": store_of(asked.keyring).name,
        "dry_run": asked.dry_run,
        "before": [] if before is None else ring_view(before, asked.now),
        "after": ring_view(after, asked.now),
        "rejects": [{"kid": loss.key.kid, "until": loss.until} for loss in lost],
    }


def _text(asked: Write, before: Keyring | None, after: Keyring, besides: Sequence[str]) -> str:
    lines = [*(changes(before, after, asked.now) or ["nothing to change"]), *besides]
    lines = [line for said in lines for line in textwrap.wrap(said, WIDTH, subsequent_indent="  ")]
    if asked.dry_run and before is not None:
        lines += ["", "BEFORE", ring_text(before, asked.now), "", "AFTER"]
    else:
        lines.append("")
    lines.append(ring_text(after, asked.now))
    return "\n".join(lines)


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
            said += _begins(after, key, now)
        if key.exp is not None and (old is None or old.exp != key.exp):
            said.append(f"opens until {both(key.exp, now)}")
        elif key.exp is None and old is not None and old.exp is not None:
            said.append("opens without end")
        lines.append(f"{key.kid} {'; '.join(said)}")
    return lines


def _begins(ring: Keyring, key: Key, now: float) -> list[str]:
    # Its nbf alone would puzzle where it lies in the past: a minute ago, for clocks that are
    # behind, or in 1970.
    role = ring.role(key, now)
    if role == "pending":
        return [f"seals from {both(key.nbf, now)}"]
    if role == "active":
        return ["seals from now on"]
    return ["opens, and does not seal"] if role == "verifying" else []
