"""What happened, as plain values for one hook: for logs, metrics and alerts.

Give `Statebox` or a live source an `on_event=` callable and it is called with an `Event` for
everything below, on the thread and in the moment it happens; so it should be quick. What it raises
is logged and goes no further. `statebox.otel.hook()` makes such a hook out of
OpenTelemetry's instruments; `log_event` is one that writes a log line an event.

No event holds a token, a state, a principal or a secret. `target` is a tool's name or a resource's
uri as the client sent it: on a `Rejected` nobody has vouched for it, and it is unbounded; `log_event`
and the metrics leave it out.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, TypeAlias, cast

logger: Final = logging.getLogger("statebox.events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A state was sealed into a token.

    Attributes:
        key_id: The kid of the key that sealed it. Counted over a fleet, it is that key's use.
        token_id: 32 hex digits that name the token.
        size: The token's length in characters.
        flow: 16 hex digits, the same in every round of one flow; None where the SDK keeps the
            claims (the codec).
        round: The round within the flow, from 1; None as above.
        method: The request's JSON-RPC method, None if the token is bound to no request.
        target: The request's tool, prompt or uri.
    """

    key_id: str
    token_id: str
    size: int
    flow: str | None = None
    round: int | None = None
    method: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A token was opened: every check held but single use, which comes after this.

    Attributes:
        key_id, token_id, size, flow, round, method, target: As for `Sealed`.
        age: Seconds since the token was sealed.
    """

    key_id: str
    token_id: str
    size: int
    age: float | None = None
    flow: str | None = None
    round: int | None = None
    method: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A token was refused.

    Attributes:
        code: The `code` of the `OpenError`.
        size: The token's length in characters; None if it was not even text.
        key_id: The kid that the token names, where the ring has such a key; else None.
        token_id, flow, round: As for `Sealed`, once the token was authenticated; else None.
        age: Seconds since the token was sealed, once it was authenticated; else None.
        method: The method of the request that it came with; None: it came with none.
        target: That request's tool, prompt or uri, as the client sent it.
    """

    code: str
    size: int | None = None
    key_id: str | None = None
    token_id: str | None = None
    flow: str | None = None
    round: int | None = None
    age: float | None = None
    method: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SealFailed:
    """A state was not sealed.

    Attributes:
        code: The `code` of the `SealError` or `KeyringError`.
        flow, round: Of the continuation that it was to follow; None if it was to start a flow.
        method, target: As for `Sealed`.
    """

    code: str
    flow: str | None = None
    round: int | None = None
    method: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyringReloaded:
    """A live source gave another ring.

    Attributes:
        source: Where it came from, as `file:keyring.json`; never with a password in it.
        key_ids: The kids in the new ring, in the order of their nbf.
    """

    source: str
    key_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyringFailed:
    """A live source had no usable ring; the last good one stays in use.

    Attributes:
        source: As for `KeyringReloaded`.
        message: The `message` of the `KeyringError`.
    """

    source: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWearing:
    """A key has sealed so many tokens under AES-GCM that it is to be replaced (SP 800-38D §8.3).

    Attributes:
        key_id: The key's kid.
        uses: How many tokens this process has sealed with it: of a fleet, only a part.
        limit: At how many this process stops sealing with it.
    """

    key_id: str
    uses: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFailed:
    """The store of a replay guard gave no answer, or none in time.

    Attributes:
        guard: The guard's class, as `RedisGuard`.
        reason: What went wrong, in a few words.
    """

    guard: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A spent token came again, and its request was answered with the remembered result.

    Attributes:
        token_id, flow, round, method, target: As for `Sealed`.
    """

    token_id: str
    flow: str | None = None
    round: int | None = None
    method: str | None = None
    target: str | None = None


Event: TypeAlias = (
    Sealed
    | Opened
    | Rejected
    | SealFailed
    | KeyringReloaded
    | KeyringFailed
    | KeyWearing
    | GuardFailed
    | Recalled
)
"""Everything a hook may be called with. More kinds may come: let a hook ignore what it does not know."""

Hook: TypeAlias = Callable[[Event], object]
"""What `on_event=` takes; what it returns is not looked at."""

_QUIET: Final = (Sealed, Opened, KeyringReloaded, Recalled)
_LOGGED_AS: Final = {"key_id": "kid", "token_id": "token"}


def is_asynchronous(function: object) -> bool:
    """Tell whether calling this gives something to await: of a function, or of an object."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is what is looked at
    )


def safe(hook: Hook | None) -> Hook | None:
    """Wrap a hook so that no request ever fails for what it raises.

    The first exception is logged with its traceback, on the logger `statebox.events`; the hook is
    called for later events all the same.

    Args:
        hook: The user's callable, or None.

    Returns:
        A hook that raises no `Exception`; None for None.

    Raises:
        TypeError: It is not callable, or is asynchronous.
    """
    if hook is None:
        return None
    # The declared type is a promise that a caller may break.
    if not callable(cast("object", hook)) or is_asynchronous(hook):
        raise TypeError("on_event is a plain function of one event; it is called, never awaited")
    quiet = False

    def deliver(event: Event) -> None:
        nonlocal quiet
        try:
            hook(event)
        except Exception:
            if not quiet:
                quiet = True
                logger.exception(
                    "the on_event hook raised on %s; later failures of it are not logged",
                    type(event).__name__,
                )

    return deliver


def log_event(event: Event) -> None:
    """Write one log line for an event: a hook to pass as `on_event=`, or to call from yours.

    The logger is `statebox.events`, the level INFO, or WARNING for what went wrong. Each attribute
    is an extra of the record too, as `statebox_flow`; a kid is `statebox_kid`, and of a token's id
    `statebox_token` has the first 8 digits. `target` is left out, for it is the client's text.

    Args:
        event: What happened.
    """
    kind = type(event).__name__
    said: dict[str, object] = {}
    for field in fields(event):
        value: object = getattr(event, field.name)
        if field.name == "token_id":
            value = None if value is None else str(value)[:8]
        if field.name != "target":
            said[_LOGGED_AS.get(field.name, field.name)] = value
    logger.log(
        logging.INFO if isinstance(event, _QUIET) else logging.WARNING,
        "%s %s",
        kind,
        " ".join(f"{name}={value}" for name, value in said.items() if value is not None),
        extra={"statebox_event": kind, **{f"statebox_{name}": v for name, v in said.items()}},
    )
