"""The events of a box, put together from what it has in hands."""

from __future__ import annotations

from typing import cast

from statebox.bindings import Request
from statebox.claims import token_id
from statebox.continuation import Continuation
from statebox.envelope import from_text
from statebox.errors import OpenError, StateboxError
from statebox.events import Opened, Rejected, Sealed, SealFailed


def report_sealed(
    token: str, key_id: str, flow: bytes, round_: int, request: Request | None
) -> Sealed:
    """Tell that a state was sealed."""
    return Sealed(
        key_id=key_id,
        token_id=token_id(from_text(token)),
        size=len(token),
        flow=flow.hex(),
        round=round_,
        **_named(request),
    )


def report_seal_failed(
    error: StateboxError, after: Continuation | None, request: Request | None
) -> SealFailed:
    """Tell that a state was not sealed."""
    return SealFailed(
        code=error.code,
        flow=None if after is None else after.flow,
        round=None if after is None else after.round,
        **_named(request),
    )


def report_opened(turn: Continuation, now: float, token: str, request: Request | None) -> Opened:
    """Tell that a token was opened."""
    return Opened(
        key_id=turn.key_id,
        token_id=turn.token_id,
        size=len(token),
        age=now - turn.issued_at,
        flow=turn.flow,
        round=turn.round,
        **_named(request),
    )


def report_rejected(
    error: OpenError, now: float, token: object, request: Request | None
) -> Rejected:
    """Tell that a token was refused; it may not even be text."""
    return Rejected(
        code=error.code,
        size=len(token) if isinstance(token, str) else None,
        key_id=error.key_id,
        token_id=error.token_id,
        age=None if error.issued_at is None else now - error.issued_at,
        flow=error.flow,
        round=error.round,
        **_named(request),
    )


def _named(request: Request | None) -> dict[str, str]:
    # A request of a wrong type is refused elsewhere, with or without a hook.
    if isinstance(cast("object", request), Request):
        named = cast("Request", request)
        return {"method": named.method, "target": named.target}
    return {}
